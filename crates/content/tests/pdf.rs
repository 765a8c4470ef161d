//! The text of PDF files, and files that lie about themselves.
#![cfg(feature = "pdf")]

use std::io::Write as _;

use argiope_content::{PDF_ENCRYPTED, PdfText};
use argiope_core::page::page_budget::PageBudget;

/// A file with these objects, numbered from 1. The first is the catalog.
fn file(objects: &[Vec<u8>], trailer: &str) -> Vec<u8> {
    let mut out = b"%PDF-1.7\n".to_vec();
    for (index, object) in objects.iter().enumerate() {
        out.extend(format!("{} 0 obj\n", index + 1).bytes());
        out.extend(object);
        out.extend(b"\nendobj\n");
    }
    out.extend(format!("trailer <</Root 1 0 R {trailer}>>\n%%EOF").bytes());
    out
}

fn stream(dictionary: &str, bytes: &[u8]) -> Vec<u8> {
    [format!("<<{dictionary} /Length {}>>\nstream\n", bytes.len()).as_bytes(), bytes, b"\nendstream"].concat()
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("written");
    encoder.finish().expect("compressed")
}

/// A page with a heading, a paragraph of two lines in two fonts, and a link.
fn document() -> Vec<u8> {
    let content =
        b"BT /F1 20 Tf 72 700 Td (Orb \\(weavers\\)) Tj /F1 10 Tf 0 -40 Td [(They build we) -20 (bs and re-)] TJ \
        0 -12 Td (build we) Tj (bs caf\\351) Tj /F2 10 Tf 0 -60 Td <00010002> Tj ET";
    let map = b"1 begincodespacerange <0000> <FFFF> endcodespacerange 1 beginbfchar <0001> <7DB2> endbfchar \
        1 beginbfrange <0002> <0003> <FB01> endbfrange";
    file(
        &[
            b"<</Type/Catalog /Pages 2 0 R>>".to_vec(),
            b"<</Type/Pages /Kids [3 0 R] /Count 1 /Resources <</Font <</F1 5 0 R /F2 6 0 R>>>>>>".to_vec(),
            b"<</Type/Page /Parent 2 0 R /Contents 4 0 R /Annots [<</Subtype/Link /A <</S/URI /URI (http://h/a)>>>>]>>"
                .to_vec(),
            stream("/Filter/FlateDecode", &deflated(content)),
            b"<</Type/Font /Subtype/Type1 /BaseFont/Helvetica /Encoding/WinAnsiEncoding>>".to_vec(),
            b"<</Type/Font /Subtype/Type0 /DescendantFonts [<</DW 1000>>] /ToUnicode 7 0 R>>".to_vec(),
            stream("", map),
            b"<</Title (Webs)>>".to_vec(),
        ],
        "/Info 8 0 R",
    )
}

fn read(file: &[u8]) -> (PdfText, PageBudget) {
    let budget = PageBudget::for_page(file.len());
    (PdfText::of(file, &budget), budget)
}

#[test]
fn a_document_has_headings_paragraphs_links_and_a_title() {
    let found = read(&document()).0;
    let markdown = "# Orb (weavers)\n\nThey build webs and re-build webs caf\u{e9}\n\n\u{7db2}fi\n";
    assert_eq!(found.markdown, markdown);
    assert_eq!(found.plain, markdown.replace("# ", ""));
    assert_eq!((found.title.as_deref(), found.pages, found.limited), (Some("Webs"), 1, None));
    assert_eq!(found.links, ["http://h/a"]);
}

#[test]
fn a_damaged_file_gives_what_is_left_of_it() {
    let whole = document();
    for end in (0..whole.len()).step_by(3) {
        let _ = read(&whole[..end]);
        let mut changed = whole.clone();
        changed[end] ^= 1 << (end % 8);
        let _ = read(&changed);
    }
    // Without its end, the file has no catalog.
    let found = read(&whole[..whole.len() - 40]).0;
    assert_eq!(found.pages, 1);
}

#[test]
fn a_hostile_file_costs_no_more_than_its_budget() {
    let pages = |contents: &str| {
        format!("<</Type/Page /Contents {contents} /Resources <</XObject <</X 4 0 R>>>>>>").into_bytes()
    };
    let around = |page: Vec<u8>, content: Vec<u8>| {
        file(&[b"<</Pages 2 0 R>>".to_vec(), b"<</Kids [3 0 R 2 0 R 2 0 R]>>".to_vec(), page, content], "")
    };
    let bomb = deflated(&vec![b' '; 100 << 20]);
    let forms = b"/X Do ".repeat(1000);
    for hostile in [
        around(pages(&format!("[{}]", "4 0 R ".repeat(1000))), stream("/Filter/FlateDecode", &bomb)),
        around(pages("4 0 R"), stream("/Type/XObject /Subtype/Form", &forms)),
        around(pages("4 0 R"), [b"[".repeat(100_000), b"1 0 obj[".repeat(100_000)].concat()),
        around(pages("4 0 R"), b"[0 ".repeat(200_000)),
        around(pages("4 0 R"), stream("/Type/ObjStm /N 1000000 /First 10", &b"1 1 ".repeat(1000))),
    ] {
        let (_, budget) = read(&hostile);
        assert!(budget.peak_memory() <= 64 << 20, "{}", budget.peak_memory());
        assert!(budget.steps() <= hostile.len() as u64 * 64 + (4 << 20));
    }
}

#[test]
fn an_encrypted_file_says_so() {
    let found = read(&file(&[b"<</Pages 2 0 R>>".to_vec()], "/Encrypt 9 0 R")).0;
    assert_eq!(found.limited, Some(PDF_ENCRYPTED));
}
