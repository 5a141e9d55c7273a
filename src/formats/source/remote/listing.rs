//! Pages of listings: XML of S3 (Google speaks it, too) and of Azure.
//!
//! What a server says is believed as far as it can be: entries that make no sense are left out.
//! Used by [`super::store`], and by [`super::refusal`] for what errors say.

use quick_xml::Reader;
use quick_xml::events::{BytesRef, Event};

use super::version::LONGEST;
use crate::error::{Fault, Result};
use crate::source::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListedObject {
    pub(super) key: String,
    pub(super) size: u64,
    pub(super) etag: Option<String>,
    pub(super) modified: Timestamp,
}

#[derive(Debug, Default, Clone)]
pub(super) struct ListedPage {
    pub(super) objects: Vec<ListedObject>,
    /// Ending with `/`.
    pub(super) prefixes: Vec<String>,
    /// How the next page is asked for.
    pub(super) next: Option<String>,
}

/// Listings have less.
const DEEPEST: usize = 16;

/// Elements of a document, each with its text when it ends: the innermost last.
fn each_element(body: &[u8], each: &mut dyn FnMut(&[String], &str)) -> Option<()> {
    let mut reader = Reader::from_reader(body);
    let (mut path, mut text) = (Vec::<String>::new(), String::new());
    loop {
        match reader.read_event().ok()? {
            Event::Start(_) if path.len() >= DEEPEST => return None,
            Event::Start(start) => {
                let name = start.local_name();
                path.push(String::from_utf8_lossy(name.as_ref()).into_owned());
                text.clear();
            }
            Event::Text(part) => text.push_str(&part.decode().ok()?),
            Event::CData(part) => text.push_str(&part.decode().ok()?),
            Event::GeneralRef(reference) => text.push(character(&reference)?),
            Event::End(_) => {
                each(&path, &text);
                path.pop()?;
                text.clear();
            }
            Event::Eof => return path.is_empty().then_some(()),
            _ => {}
        }
    }
}

fn character(reference: &BytesRef<'_>) -> Option<char> {
    if let Some(number) = reference.resolve_char_ref().ok()? {
        return Some(number);
    }
    Some(match &*reference.decode().ok()? {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "apos" => '\'',
        "quot" => '"',
        _ => return None,
    })
}

/// The text of the first element of this name.
pub(super) fn text_of(body: &[u8], wanted: &str) -> Option<String> {
    let mut found = None;
    let read = each_element(body, &mut |path, text| {
        if found.is_none() && path.last().is_some_and(|name| name == wanted) {
            found = Some(text.to_owned());
        }
    });
    read.and(found)
}

/// The time of an answer's header, or of a listing; none is the beginning of time.
pub(super) fn time(text: &str) -> Timestamp {
    let iso = text.parse::<jiff::Timestamp>();
    let parsed = iso.or_else(|_| {
        let parser = jiff::fmt::rfc2822::DateTimeParser::new();
        parser.parse_timestamp(text)
    });
    parsed.map_or(Timestamp::default(), |time| Timestamp {
        secs: time.as_second(),
        nanos: u32::try_from(time.subsec_nanosecond()).unwrap_or(0),
    })
}

/// An ETag as it is compared: servers quote it, or not.
pub(super) fn etag(text: &str) -> Option<String> {
    let tag = text.trim();
    (!tag.is_empty()).then(|| match tag.strip_prefix("W/") {
        Some(weak) => format!("W/{}", weak.trim_matches('"')),
        None => tag.trim_matches('"').to_owned(),
    })
}

#[derive(Default)]
struct ReadEntry {
    key: String,
    size: Option<u64>,
    etag: Option<String>,
    modified: Timestamp,
    is_directory: bool,
}

/// Reads a page.
pub(super) fn parse(body: &[u8]) -> Result<ListedPage> {
    let (mut page, mut entry, mut is_encoded) =
        (ListedPage::default(), ReadEntry::default(), false);
    let read = each_element(body, &mut |path, text| {
        let (name, above) = match path {
            [.., above, name] => (&**name, &**above),
            [name] => (&**name, ""),
            [] => return,
        };
        match (above, name) {
            ("Contents", "Key") | ("Blob", "Name") => entry.key = text.to_owned(),
            ("Contents", "Size") | (_, "Content-Length") => entry.size = text.parse().ok(),
            ("Contents", "ETag") | (_, "Etag") => entry.etag = etag(text),
            ("Contents", "LastModified") | (_, "Last-Modified") => entry.modified = time(text),
            // Azure's hierarchical accounts list directories as objects, too.
            (_, "ResourceType") => entry.is_directory = text == "directory",
            ("CommonPrefixes", "Prefix") | ("BlobPrefix", "Name") => {
                page.prefixes.push(text.to_owned());
            }
            (_, "EncodingType") => is_encoded = text == "url",
            ("ListBucketResult", "NextContinuationToken")
            | ("EnumerationResults", "NextMarker") => {
                page.next = Some(text.to_owned()).filter(|token| !token.is_empty());
            }
            (_, "Contents" | "Blob") => {
                let ReadEntry {
                    key,
                    size,
                    etag,
                    modified,
                    is_directory,
                } = std::mem::take(&mut entry);
                let size = size.filter(|size| *size <= LONGEST);
                if let (Some(size), false) = (size, is_directory) {
                    page.objects.push(ListedObject {
                        key,
                        size,
                        etag,
                        modified,
                    });
                }
            }
            _ => {}
        }
    });
    if read.is_none() {
        return Err(Fault::new("a listing cannot be read").into());
    }
    if is_encoded {
        let objects = page.objects.iter_mut().map(|object| &mut object.key);
        objects.chain(&mut page.prefixes).for_each(decode);
    }
    Ok(page)
}

/// As forms are encoded.
fn decode(key: &mut String) {
    let spaced = key.replace('+', " ");
    let decoded = percent_encoding::percent_decode_str(&spaced).decode_utf8();
    *key = decoded.map_or_else(|_| String::new(), |decoded| decoded.into_owned());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_s3_is_read() {
        let page =
            br#"<?xml version="1.0"?><ListBucketResult xmlns="x"><Name>b</Name><Prefix></Prefix>
            <EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>
            <Contents><Key>a%2Fb+c%2Bd</Key><LastModified>2026-11-29T12:00:00.250Z</LastModified>
            <ETag>&quot;abc-2&quot;</ETag><Size>7</Size><Owner><ID>o</ID></Owner></Contents>
            <Contents><Key>bad</Key><Size>x</Size></Contents>
            <CommonPrefixes><Prefix>d%C3%BC/</Prefix></CommonPrefixes>
            <NextContinuationToken>t&amp;1</NextContinuationToken></ListBucketResult>"#;
        let page = parse(page).unwrap();
        let object = ListedObject {
            key: "a/b c+d".into(),
            size: 7,
            etag: Some("abc-2".into()),
            modified: Timestamp {
                secs: 1_795_953_600,
                nanos: 250_000_000,
            },
        };
        assert_eq!(page.objects, [object]);
        assert_eq!(page.prefixes, ["d\u{fc}/"]);
        assert_eq!(page.next.as_deref(), Some("t&1"));
    }

    #[test]
    fn a_page_of_azure_is_read() {
        let page = br#"<EnumerationResults><Blobs><Blob><Name>a+b</Name><Properties>
            <Last-Modified>Sun, 29 Nov 2026 12:00:00 GMT</Last-Modified><Etag>0x8D</Etag>
            <Content-Length>3</Content-Length></Properties></Blob>
            <BlobPrefix><Name>d/</Name></BlobPrefix></Blobs><NextMarker /></EnumerationResults>"#;
        let page = parse(page).unwrap();
        assert_eq!(page.objects[0].key, "a+b");
        assert_eq!(page.objects[0].modified.secs, 1_795_953_600);
        assert_eq!((page.prefixes.len(), page.next), (1, None));
    }

    #[test]
    fn errors_are_read_and_damage_is_one() {
        let body = b"<Error><Code>NoSuchKey</Code><Message>m</Message></Error>";
        assert_eq!(text_of(body, "Code").as_deref(), Some("NoSuchKey"));
        assert!(text_of(b"oops", "Code").is_none());
        assert!(parse(b"<ListBucketResult><Contents>").is_err());
        assert!(parse(b"<a>&unknown;</a>").is_err());
        assert_eq!(etag("W/\"x\"").as_deref(), Some("W/x"));
    }
}
