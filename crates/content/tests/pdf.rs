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
    let budget = PdfText::budget(file);
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

/// A page whose contents and resources are these, in the tree of pages of object 2.
fn page(contents: &str, resources: &str) -> Vec<u8> {
    format!("<</Type/Page /Contents {contents} /Resources <<{resources}>>>>").into_bytes()
}

/// A file with one page, object 3, and these objects from number 4 on.
fn around(page: Vec<u8>, others: &[Vec<u8>]) -> Vec<u8> {
    let mut objects = vec![b"<</Pages 2 0 R>>".to_vec(), b"<</Kids [3 0 R]>>".to_vec(), page];
    objects.extend_from_slice(others);
    file(&objects, "")
}

/// A file with one page that shows a text in a font of two bytes for each code. `map` is its table of characters.
fn in_font(content: &[u8], inner: &str, map: &[u8]) -> Vec<u8> {
    let font = format!("<</Subtype/Type0 /DescendantFonts [<<{inner}>>] /ToUnicode 6 0 R>>").into_bytes();
    let content = stream("/Filter/FlateDecode", &deflated(content));
    let map = stream("/Filter/FlateDecode", &deflated(map));
    around(page("4 0 R", "/Font <</F 5 0 R>>"), &[content, font, map])
}

/// Files that cost much more than files of their size, unless the work is charged.
fn hostile_files() -> Vec<(&'static str, Vec<u8>)> {
    let drawings = "/XObject <</X 4 0 R>>";
    let bomb = deflated(&vec![b' '; 20 << 20]);
    let show = b"BT /F 9 Tf <0001> Tj ET";
    let kids = [b"<</Pages 2 0 R>>".to_vec(), b"<</Kids [3 0 R 2 0 R 2 0 R]>>".to_vec(), page("4 0 R", "")];
    let own_kids = format!("<</Kids [{}]>>", "2 0 R ".repeat(20_000)).into_bytes();
    let annotated = format!("<</Annots [{}]>>", "4 0 R ".repeat(5_000)).into_bytes();
    let link = format!("<</A <</URI (http://h/{})>>>>", "a".repeat(100_000)).into_bytes();
    let short_link = b"<</A <</URI (http://h/a)>>>>".to_vec();
    let numbers = format!("<</Widths [{}]>>", "7 ".repeat(20_000)).into_bytes();
    let packed = b"1 1 ".repeat(1 << 16);
    vec![
        ("a bomb", around(page(&format!("[{}]", "4 0 R ".repeat(1000)), ""), &[stream("/Filter/FlateDecode", &bomb)])),
        ("twice packed", around(page("4 0 R", ""), &[stream("/Filter[/FlateDecode/FlateDecode]", &deflated(&bomb))])),
        ("a drawing in itself", around(page("4 0 R", drawings), &[stream("/Subtype/Form", &b"/X Do ".repeat(1000))])),
        ("nested objects", around(page("4 0 R", ""), &[[b"[".repeat(10_000), b"1 0 obj[".repeat(10_000)].concat()])),
        ("nested arrays", around(page("4 0 R", ""), &[b"[0 ".repeat(20_000)])),
        ("a loop of pages", file(&kids, "")),
        ("a node that names itself often", file(&[kids[0].clone(), own_kids], "")),
        ("packed objects", around(page("4 0 R", ""), &[stream("/Type/ObjStm /N 1000000 /First 10", &packed)])),
        ("a range repeated", in_font(show, "", &b"<0000> <fffe> <0041> 1 beginbfrange endbfrange ".repeat(17_000))),
        (
            "a long text of a range",
            in_font(show, "", &[&b"<0000> <fffe> <"[..], &b"0041".repeat(100_000), b"> endbfrange"].concat()),
        ),
        (
            "a long text of a code",
            in_font(
                &[&b"BT /F 9 Tf <"[..], &b"0001".repeat(10_000), b"> Tj ET"].concat(),
                "",
                &[&b"<0001> <"[..], &b"0041".repeat(500_000), b"> endbfchar"].concat(),
            ),
        ),
        ("a range of widths repeated", in_font(show, &format!("/W [{}]", "0 65534 1 ".repeat(3_000)), b"")),
        (
            "arrays as operands",
            around(
                page("4 0 R", ""),
                &[stream(
                    "/Filter/FlateDecode",
                    &deflated(&[&b"["[..], &b"0 ".repeat(90_000), b"]"].concat().repeat(60)),
                )],
            ),
        ),
        (
            "arrays in a table of characters",
            in_font(show, "", &[&b"["[..], &b"0 ".repeat(90_000), b"]"].concat().repeat(60)),
        ),
        ("a long link repeated", around(annotated.clone(), &[link])),
        ("a link repeated", around(annotated, &[short_link])),
        (
            "a font repeated",
            around(page("4 0 R", "/Font <</F 5 0 R>>"), &[stream("", &b"/F 9 Tf ".repeat(2_000)), numbers]),
        ),
        (
            "rows longer than the stream",
            around(
                page("4 0 R", ""),
                &[stream(
                    "/Filter/FlateDecode /DecodeParms <</Predictor 12 /Columns 1000000 /Colors 32 /BitsPerComponent 16>>",
                    &deflated(&[2; 1000]),
                )],
            ),
        ),
        ("a width of the last code", in_font(show, "/W [4294967295 [1 2 3]]", b"")),
    ]
}

/// What is allocated is counted by the allocator, not by the budget, so work that is not charged is seen.
#[test]
fn a_hostile_file_costs_no_more_than_its_budget() {
    for (name, hostile) in hostile_files() {
        let mut cut = None;
        let cost = allocation_counter::measure(|| cut = read(&hostile).0.limited);
        let size = hostile.len() as u64;
        // The memory of the budget, and one value that was read and then refused.
        let memory = (size * 40 + (4 << 20)).min(64 << 20) + size * 2 + (1 << 20);
        let steps = (size * 256 + (4 << 20)).min(384 << 20);
        assert!(cost.bytes_max <= memory, "{name}: {} bytes at once, {memory} allowed; {cut:?}", cost.bytes_max);
        // An allocation is more than 16 steps, and an allocated byte more than a sixteenth of one.
        assert!(cost.count_total <= steps / 16, "{name}: {} allocations", cost.count_total);
        assert!(cost.bytes_total <= steps * 16, "{name}: {} bytes in all", cost.bytes_total);
    }
}

#[test]
fn the_newest_object_of_an_updated_file_counts() {
    let pack = |text: &str| {
        let objects = format!("<</Title ({text})>>");
        stream(&format!("/Type/ObjStm /N 1 /First {}", 4), format!("9 0 {objects}").as_bytes())
    };
    let plain = |text: &str| format!("<</Title ({text})>>").into_bytes();
    let catalog = b"<</Pages 2 0 R>>".to_vec();
    let write = |parts: &[(u32, Vec<u8>)]| {
        let mut out = b"%PDF-1.7\n1 0 obj".to_vec();
        out.extend(&catalog);
        for (number, object) in parts {
            out.extend(format!("\n{number} 0 obj ").bytes());
            out.extend(object);
            out.extend(b"\nendobj");
        }
        out.extend(b"\ntrailer <</Root 1 0 R /Info 9 0 R>>");
        read(&out).0.title
    };
    // Whatever the number of the stream, and whether an object is packed.
    assert_eq!(write(&[(20, pack("old")), (30, pack("new"))]).as_deref(), Some("new"));
    assert_eq!(write(&[(30, pack("old")), (20, pack("new"))]).as_deref(), Some("new"));
    assert_eq!(write(&[(9, plain("old")), (20, pack("new"))]).as_deref(), Some("new"));
    assert_eq!(write(&[(20, pack("old")), (9, plain("new"))]).as_deref(), Some("new"));
}

#[test]
fn the_newest_trailer_counts_in_a_file_with_many() {
    let mut out = file(&[b"<</Pages 2 0 R>>".to_vec()], "");
    for number in 10..110 {
        out.extend(
            format!("\n{number} 0 obj <</Title (Version {number})>> endobj trailer <</Info {number} 0 R>>").bytes(),
        );
    }
    assert_eq!(read(&out).0.title.as_deref(), Some("Version 109"));
}

#[test]
fn the_text_after_a_picture_within_a_page_is_read() {
    let picture = |dictionary: &str, data: &[u8]| {
        let content = [b"BI ", dictionary.as_bytes(), b" ID ", data, b"\nEI BT /F 9 Tf (after) Tj ET"].concat();
        let font = b"<</Subtype/Type1>>".to_vec();
        read(&around(page("4 0 R", "/Font <</F 5 0 R>>"), &[stream("", &content), font])).0.plain
    };
    // The data has `EI` by chance, also between white space, and the beginning of a text.
    let data = b"\x01EI(\x02 EI \xff(<\x00\x03";
    assert_eq!(picture(&format!("/W {} /H 1 /BPC 8 /CS/G", data.len()), data), "after\n");
    assert_eq!(picture("/W 9 /H 9 /F/DCT", data), "after\n");
    assert_eq!(picture(&format!("/F/DCT /L {}", data.len()), data), "after\n");
}

#[test]
fn states_that_are_not_saved_are_not_restored() {
    let content = format!("BT /F 9 Tf 1 0 0 1 50 700 cm {}{}(a) Tj ET", "q ".repeat(100), "Q ".repeat(100));
    let font = b"<</Subtype/Type1>>".to_vec();
    let found = read(&around(page("4 0 R", "/Font <</F 5 0 R>>"), &[stream("", content.as_bytes()), font])).0;
    assert_eq!(found.plain, "a\n");
}

#[test]
fn links_and_titles_are_clean() {
    let annotations =
        ["javascript:alert(1)", "http://h/a", "http://h/a", "http://h/\\033[1m<b>", "//h/x", "http://h/\\nb"];
    let list: String = annotations.iter().map(|target| format!("<</A <</URI ({target})>>>>")).collect();
    let objects = [
        b"<</Pages 2 0 R>>".to_vec(),
        b"<</Kids [3 0 R]>>".to_vec(),
        format!("<</Annots [{list}]>>").into_bytes(),
        b"<</Title (Webs\\033[2J of <FEFF> silk)>>".to_vec(),
        b"<</Title <FEFF0057202E0062>>>".to_vec(),
    ];
    let found = read(&file(&objects, "/Info 4 0 R")).0;
    assert_eq!(found.title.as_deref(), Some("Webs[2J of <FEFF> silk"));
    assert_eq!(found.links, ["http://h/a", "http://h/%1B[1m%3Cb%3E", "http://h/b"]);
    let marked = read(&file(&objects, "/Info 5 0 R")).0;
    assert_eq!(marked.title.as_deref(), Some("Wb"));
}

#[test]
fn an_encrypted_file_says_so() {
    let found = read(&file(&[b"<</Pages 2 0 R>>".to_vec()], "/Encrypt 9 0 R")).0;
    assert_eq!(found.limited, Some(PDF_ENCRYPTED));
}
