//! HPACK (RFC 7541) without a dynamic table.
//!
//! The client advertises a table of 0 bytes. An entry that is larger than the table is not inserted (RFC 7541, 4.4), so
//! a server that follows the protocol never refers to a dynamic entry. Such a reference is an error. The encoder uses
//! only the static table and literals, so neither side keeps state between two header blocks.
//!
//! Invariant: decoding a block of n bytes takes O(n) steps. The decoded fields take at most `limit` bytes.

/// The static table (RFC 7541, appendix A). Indexes in header blocks start at 1.
const STATIC: [(&[u8], &[u8]); 61] = [
    (b":authority", b""),
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":path", b"/"),
    (b":path", b"/index.html"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    (b":status", b"200"),
    (b":status", b"204"),
    (b":status", b"206"),
    (b":status", b"304"),
    (b":status", b"400"),
    (b":status", b"404"),
    (b":status", b"500"),
    (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"),
    (b"accept-language", b""),
    (b"accept-ranges", b""),
    (b"accept", b""),
    (b"access-control-allow-origin", b""),
    (b"age", b""),
    (b"allow", b""),
    (b"authorization", b""),
    (b"cache-control", b""),
    (b"content-disposition", b""),
    (b"content-encoding", b""),
    (b"content-language", b""),
    (b"content-length", b""),
    (b"content-location", b""),
    (b"content-range", b""),
    (b"content-type", b""),
    (b"cookie", b""),
    (b"date", b""),
    (b"etag", b""),
    (b"expect", b""),
    (b"expires", b""),
    (b"from", b""),
    (b"host", b""),
    (b"if-match", b""),
    (b"if-modified-since", b""),
    (b"if-none-match", b""),
    (b"if-range", b""),
    (b"if-unmodified-since", b""),
    (b"last-modified", b""),
    (b"link", b""),
    (b"location", b""),
    (b"max-forwards", b""),
    (b"proxy-authenticate", b""),
    (b"proxy-authorization", b""),
    (b"range", b""),
    (b"referer", b""),
    (b"refresh", b""),
    (b"retry-after", b""),
    (b"server", b""),
    (b"set-cookie", b""),
    (b"strict-transport-security", b""),
    (b"transfer-encoding", b""),
    (b"user-agent", b""),
    (b"vary", b""),
    (b"via", b""),
    (b"www-authenticate", b""),
];

/// Bytes that each field adds to the size of its name and value (RFC 9113, 6.5.2).
pub const FIELD_OVERHEAD: usize = 32;

/// Why a header block could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HpackError {
    /// The block is malformed. For the connection this is a COMPRESSION_ERROR.
    Malformed(&'static str),
    /// The fields take more than the limit.
    TooLarge,
}

/// At the start of a header block: sets the size of the dynamic table to 0.
pub const EMPTY_TABLE: u8 = 0x20;

/// First bit of a field that is an entry of the static table.
const INDEXED: u8 = 0x80;
/// First bits of a literal that must never be indexed, not even by a proxy.
const NEVER_INDEXED: u8 = 0x10;

/// Decodes a header block and calls back with the name and value of each field, in order.
///
/// `limit` bounds the sum of names, values and [`FIELD_OVERHEAD`] over all fields.
pub fn decode(block: &[u8], limit: usize, mut on_field: impl FnMut(&[u8], &[u8])) -> Result<(), HpackError> {
    let mut input = Input { rest: block };
    let (mut name_text, mut value_text) = (Vec::new(), Vec::new());
    let mut room = limit;
    let mut has_fields = false;
    while let Some(&first) = input.rest.first() {
        if first & 0xe0 == 0x20 {
            // A change of the table's size. It is allowed only before the first field.
            if has_fields {
                return Err(HpackError::Malformed("a table size update after a field"));
            }
            if input.integer(5)? != 0 {
                return Err(HpackError::Malformed("a table size update above the advertised 0"));
            }
            continue;
        }
        has_fields = true;
        let (name, value): (&[u8], &[u8]) = if first & INDEXED != 0 {
            static_entry(input.integer(7)?)?
        } else {
            // A literal with incremental indexing (0x40) does not fit into a table of 0 bytes. So it differs from other
            // literals only in the bits of its first integer.
            let prefix = if first & 0x40 != 0 { 6 } else { 4 };
            let name = match input.integer(prefix)? {
                0 => input.string(&mut name_text, room)?,
                index => static_entry(index)?.0,
            };
            (name, input.string(&mut value_text, room)?)
        };
        let field_size = name.len() + value.len() + FIELD_OVERHEAD;
        room = room.checked_sub(field_size).ok_or(HpackError::TooLarge)?;
        on_field(name, value);
    }
    Ok(())
}

/// An entry of the static table.
fn static_entry(index: u32) -> Result<(&'static [u8], &'static [u8]), HpackError> {
    let entry = (index as usize).checked_sub(1).and_then(|index| STATIC.get(index)).copied();
    entry.ok_or(HpackError::Malformed("a reference to an entry that does not exist"))
}

/// The unread rest of a header block.
struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    fn byte(&mut self) -> Result<u8, HpackError> {
        let (first, rest) = self.rest.split_first().ok_or(HpackError::Malformed("a header block that ends early"))?;
        self.rest = rest;
        Ok(*first)
    }

    /// An integer with a prefix of this many bits (RFC 7541, 5.1). Integers of more than five bytes are refused.
    fn integer(&mut self, prefix: u8) -> Result<u32, HpackError> {
        let mask = (1_u32 << prefix) - 1;
        let mut value = u32::from(self.byte()?) & mask;
        if value < mask {
            return Ok(value);
        }
        for shift in [0, 7, 14, 21] {
            let byte = self.byte()?;
            value += u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(HpackError::Malformed("an integer that is too large"))
    }

    /// A string (RFC 7541, 5.2): a slice of the block, or decoded into `text`, which may hold at most `room` bytes.
    fn string<'t>(&mut self, text: &'t mut Vec<u8>, room: usize) -> Result<&'t [u8], HpackError>
    where
        'a: 't,
    {
        let is_huffman_coded = self.rest.first().is_some_and(|byte| byte & 0x80 != 0);
        let length = self.integer(7)? as usize;
        if length > self.rest.len() {
            return Err(HpackError::Malformed("a string that ends after its block"));
        }
        let (coded, rest) = self.rest.split_at(length);
        self.rest = rest;
        if !is_huffman_coded {
            return if length > room { Err(HpackError::TooLarge) } else { Ok(coded) };
        }
        text.clear();
        huffman_decode(coded, text, room)?;
        Ok(text)
    }
}

/// The length in bits of each symbol's Huffman code (RFC 7541, appendix B). The lengths determine the codes, because
/// the code is canonical: codes of the same length are consecutive, in the order of their symbols.
const CODE_BITS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28,
    28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12,
    10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6,
    5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22,
    22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20,
    22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28,
    27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28,
    27, 27, 27, 27, 27, 26,
];

const LONGEST_CODE: usize = 30;

/// The Huffman code, laid out for decoding.
struct Huffman {
    /// The symbols in the order of their codes.
    symbols: [u8; 256],
    /// For each length: the first code after those of this length, shifted left to 32 bits.
    limit: [u64; LONGEST_CODE + 1],
    /// For each length: what to subtract from a code to get its index in `symbols`.
    offset: [u32; LONGEST_CODE + 1],
    /// For the first eight bits: symbol and length, if the code fits into them; otherwise length 0.
    short: [(u8, u8); 256],
}

const HUFFMAN: Huffman = Huffman::new();

impl Huffman {
    const fn new() -> Self {
        let mut built = Self {
            symbols: [0; 256],
            limit: [0; LONGEST_CODE + 1],
            offset: [0; LONGEST_CODE + 1],
            short: [(0, 0); 256],
        };
        let (mut code, mut index, mut bits) = (0_u32, 0_u32, 1_usize);
        while bits <= LONGEST_CODE {
            code <<= 1;
            built.offset[bits] = code.wrapping_sub(index);
            let mut symbol = 0_usize;
            while symbol < 256 {
                if CODE_BITS[symbol] as usize == bits {
                    built.symbols[index as usize] = symbol as u8;
                    if bits <= 8 {
                        let first = (code as usize) << (8 - bits);
                        let mut at = 0;
                        while at < 1 << (8 - bits) {
                            built.short[first + at] = (symbol as u8, bits as u8);
                            at += 1;
                        }
                    }
                    code += 1;
                    index += 1;
                }
                symbol += 1;
            }
            built.limit[bits] = (code as u64) << (32 - bits);
            bits += 1;
        }
        built
    }
}

/// Decodes a Huffman-coded string.
fn huffman_decode(coded: &[u8], text: &mut Vec<u8>, room: usize) -> Result<(), HpackError> {
    static TABLE: Huffman = HUFFMAN;
    // The bits that are not decoded yet, aligned to the left, and their number.
    let (mut bits, mut bit_count) = (0_u64, 0_u32);
    let mut input = coded.iter();
    loop {
        while bit_count <= 56 {
            let Some(byte) = input.next() else { break };
            bits |= u64::from(*byte) << (56 - bit_count);
            bit_count += 8;
        }
        let (symbol, length) = match TABLE.short[(bits >> 56) as usize] {
            (symbol, length @ 1..) => (symbol, u32::from(length)),
            _ => {
                let next_32_bits = bits >> 32;
                let Some(length) = (9..=LONGEST_CODE).find(|length| next_32_bits < TABLE.limit[*length]) else {
                    // 30 ones: the end-of-string symbol, which must not occur.
                    break;
                };
                let code = (next_32_bits >> (32 - length)) as u32;
                let index = code.wrapping_sub(TABLE.offset[length]) as usize;
                (TABLE.symbols.get(index).copied().unwrap_or_default(), length as u32)
            }
        };
        if length > bit_count {
            break;
        }
        bits <<= length;
        bit_count -= length;
        if text.len() >= room {
            return Err(HpackError::TooLarge);
        }
        text.push(symbol);
    }
    // At most seven bits of padding, all of them ones.
    let padding = if bit_count == 0 { 0 } else { bits >> (64 - bit_count) };
    if bit_count > 7 || padding != (1 << bit_count) - 1 {
        return Err(HpackError::Malformed("a Huffman-coded string with a bad end"));
    }
    Ok(())
}

/// Appends one field: as an index if the static table has it, otherwise as a literal without indexing. Credentials are
/// marked as never indexed (RFC 7541, 7.1.3).
pub fn encode(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    // The index of the first entry with this name; 0 if there is none.
    let mut name_index = 0;
    for (index, (known_name, known_value)) in (1_u32..).zip(&STATIC) {
        if *known_name == name {
            if !value.is_empty() && *known_value == value {
                return push_integer(out, INDEXED, 7, index);
            }
            name_index = if name_index == 0 { index } else { name_index };
        }
    }
    let is_secret = matches!(name, b"authorization" | b"proxy-authorization" | b"cookie");
    push_integer(out, if is_secret { NEVER_INDEXED } else { 0 }, 4, name_index);
    if name_index == 0 {
        push_string(out, name);
    }
    push_string(out, value);
}

/// Appends a string without Huffman coding.
fn push_string(out: &mut Vec<u8>, text: &[u8]) {
    push_integer(out, 0, 7, text.len() as u32);
    out.extend_from_slice(text);
}

/// Appends an integer with a prefix of this many bits (RFC 7541, 5.1). `flags` are the bits before the prefix.
fn push_integer(out: &mut Vec<u8>, flags: u8, prefix: u8, value: u32) {
    let mask = (1_u32 << prefix) - 1;
    if value < mask {
        return out.push(flags | value as u8);
    }
    out.push(flags | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push(0x80 | (rest & 0x7f) as u8);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(block: &[u8]) -> Result<Vec<(String, String)>, HpackError> {
        let mut found = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        decode(block, 1 << 16, |name, value| found.push((text(name), text(value))))?;
        Ok(found)
    }

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn the_examples_of_the_rfc_decode() {
        // C.6.1: a response with Huffman-coded literals with incremental indexing.
        let block =
            hex("4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d \
                         29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3");
        let expected = [
            (":status", "302"),
            ("cache-control", "private"),
            ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
            ("location", "https://www.example.com"),
        ];
        assert_eq!(fields(&block).unwrap(), pairs(&expected));
        // C.2.1 to C.2.4: the four kinds of fields.
        assert_eq!(
            fields(&hex("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572")).unwrap(),
            pairs(&[("custom-key", "custom-header")])
        );
        assert_eq!(fields(&hex("040c 2f73 616d 706c 652f 7061 7468")).unwrap(), pairs(&[(":path", "/sample/path")]));
        assert_eq!(
            fields(&hex("1008 7061 7373 776f 7264 0673 6563 7265 74")).unwrap(),
            pairs(&[("password", "secret")])
        );
        assert_eq!(fields(&hex("82")).unwrap(), pairs(&[(":method", "GET")]));
    }

    #[test]
    fn every_symbol_decodes_from_its_code() {
        // Recomputes the codes with the naive algorithm.
        let mut order: Vec<usize> = (0..256).collect();
        order.sort_by_key(|symbol| (CODE_BITS[*symbol], *symbol));
        let (mut code, mut last) = (0_u64, 0_u8);
        for symbol in order {
            let bits = CODE_BITS[symbol];
            code <<= bits - last;
            last = bits;
            // The code, then ones up to 40 bits: the last five bytes of the integer. The string ends with the code's
            // last byte.
            let padded = (code << (40 - bits)) | ((1 << (40 - bits)) - 1);
            let length = usize::from(bits).div_ceil(8);
            let mut text = Vec::new();
            huffman_decode(&padded.to_be_bytes()[3..3 + length], &mut text, 10).unwrap();
            assert_eq!(text, [symbol as u8], "{bits} bits");
            code += 1;
        }
        assert_eq!(code, 0x3fff_ffff, "one code is left, the end of the string");
    }

    #[test]
    fn bad_huffman_strings_are_refused() {
        let mut text = Vec::new();
        // Eight bits of padding; the end-of-string symbol with ones after it; padding of zeros; eleven bits of padding;
        // the end-of-string symbol with zeros after it.
        for coded in [&[0xff][..], &[0xff, 0xff, 0xff, 0xff], &[0x00], &[0x1f, 0xff], &[0xff, 0xff, 0xff, 0xfc]] {
            text.clear();
            assert!(huffman_decode(coded, &mut text, 100).is_err(), "{coded:x?}");
        }
        text.clear();
        assert_eq!(huffman_decode(&[0x1f], &mut text, 100), Ok(()), "'a' and three ones");
        assert_eq!(text, b"a");
        assert_eq!(huffman_decode(&[0x1f], &mut text, 1), Err(HpackError::TooLarge));
    }

    #[test]
    fn references_to_dynamic_entries_are_refused() {
        assert!(fields(&hex("be")).is_err(), "index 62");
        assert!(fields(&hex("80")).is_err(), "index 0");
        assert!(fields(&hex("ff80 8080 8001")).is_err(), "an index of many bytes");
        assert!(fields(&hex("7f01 0161")).is_err(), "a literal with the name of entry 64");
        assert!(fields(&hex("4001 6101 62be")).is_err(), "an entry that was not inserted because the table is empty");
    }

    #[test]
    fn table_size_updates_above_the_advertised_size_are_refused() {
        assert_eq!(fields(&hex("20 82")).unwrap().len(), 1);
        assert_eq!(fields(&hex("20 20 82")).unwrap().len(), 1);
        assert!(fields(&hex("21 82")).is_err(), "a table of one byte");
        assert!(fields(&hex("3fe1 1f82")).is_err(), "a table of 4,096 bytes");
        assert!(fields(&hex("82 20")).is_err(), "an update after a field");
    }

    #[test]
    fn truncated_blocks_are_refused() {
        let block = hex("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572");
        for cut in 1..block.len() {
            assert!(fields(&block[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn the_limit_counts_decoded_bytes() {
        let bomb = vec![0x90; 100_000];
        let mut count = 0;
        let result = decode(&bomb, 64 << 10, |_, _| count += 1);
        assert_eq!(result, Err(HpackError::TooLarge));
        // accept-encoding: gzip, deflate
        assert_eq!(count, (64 << 10) / (15 + 13 + FIELD_OVERHEAD));
    }

    #[test]
    fn encoded_fields_decode_to_the_same_fields() {
        let sent = [
            (":method", "GET"),
            (":scheme", "https"),
            (":path", "/a?b=c"),
            (":authority", "h.example:8443"),
            ("user-agent", "argiope/1"),
            ("accept-encoding", "gzip, deflate, br, zstd"),
            ("cookie", "a=1; b=2"),
            ("x-empty", ""),
            ("x-long", &"v".repeat(70_000)),
        ];
        let mut block = Vec::new();
        for (name, value) in sent {
            encode(&mut block, name.as_bytes(), value.as_bytes());
        }
        assert_eq!(&block[..2], [0x82, 0x87], "two fields of the static table");
        let mut found = Vec::new();
        decode(&block, 1 << 20, |name, value| found.push((name.to_vec(), value.to_vec()))).unwrap();
        let expected: Vec<_> =
            sent.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect();
        assert_eq!(found, expected);
    }
}
