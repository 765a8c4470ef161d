//! Prints the text of a PDF file as Markdown: `pdf_text FILE`. With `--plain`, as plain text.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it prints its result")]

use argiope_content::PdfText;

fn main() -> std::io::Result<()> {
    let is_plain = std::env::args().any(|argument| argument == "--plain");
    let file = std::env::args().nth(1).unwrap_or_default();
    let bytes = std::fs::read(file)?;
    let found = PdfText::of(&bytes, &PdfText::budget(&bytes));
    print!("{}", if is_plain { &found.plain } else { &found.markdown });
    eprintln!("title {:?}, {} pages, {} links, {:?}", found.title, found.pages, found.links.len(), found.limited);
    Ok(())
}
