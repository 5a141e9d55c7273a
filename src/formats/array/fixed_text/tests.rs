//! Texts of every kind against what NumPy makes of the same values, in parts of any length.

use super::*;
use crate::array::Order;
use crate::array::dtype::Dtype;
use proptest::prelude::*;

/// A text that comes in parts of so many bytes.
struct InParts<'a>(&'a [u8], usize);

impl TextParts for InParts<'_> {
    fn each(&self, visit: &mut dyn FnMut(&[u8]) -> Result<TextDemand>) -> Result<()> {
        for part in self.0.chunks(self.1) {
            if visit(part)? == TextDemand::Ends {
                break;
            }
        }
        Ok(())
    }
}

fn info(shape: &[u64], bytes: usize) -> Info {
    Info {
        dtype: Dtype::Text,
        shape: shape.to_vec(),
        order: Order::C,
        bytes: bytes as u64,
        stored_bytes: bytes as u64,
        blocks: 1,
        codec: "none".into(),
    }
}

fn shown(values: &[Vec<u8>]) -> Vec<u8> {
    let lines = values.iter().flat_map(|value| value.iter().chain(b"\n"));
    lines.copied().collect()
}

fn filled(form: &FixedText, text: &InParts<'_>, ends: &ValueEnds) -> Vec<u8> {
    let mut out = vec![0; form.bytes() as usize];
    form.fill(text, ends, &mut out).unwrap();
    out
}

fn fixed(form: Option<TextForm>) -> FixedText {
    match form {
        Some(TextForm::Fixed(fixed)) => fixed,
        other => panic!("{other:?}"),
    }
}

/// As NumPy makes an array of these values.
fn expected(values: &[Vec<u8>]) -> (TextEncoding, u64, Vec<u8>) {
    let texts = values.iter().map(|value| std::str::from_utf8(value).ok());
    let texts: Option<Vec<&str>> = texts.collect();
    let texts = texts.filter(|texts| texts.iter().any(|text| !text.is_ascii()));
    let mut bytes = Vec::new();
    let Some(texts) = texts else {
        let width = values.iter().map(Vec::len).max().unwrap_or(0).max(1);
        for value in values {
            let end = bytes.len() + width;
            bytes.extend_from_slice(value);
            bytes.resize(end, 0);
        }
        return (TextEncoding::Bytes, width as u64, bytes);
    };
    let width = texts
        .iter()
        .map(|text| text.chars().count())
        .max()
        .unwrap_or(0);
    for text in texts {
        let end = bytes.len() + 4 * width.max(1);
        text.chars()
            .for_each(|c| bytes.extend(u32::from(c).to_le_bytes()));
        bytes.resize(end, 0);
    }
    (TextEncoding::Unicode, width.max(1) as u64, bytes)
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    let ascii = proptest::collection::vec(b'a'..b'e', 0..9);
    let texts = proptest::collection::vec(any::<char>(), 0..5);
    let texts = texts.prop_map(|text| text.into_iter().collect::<String>().into_bytes());
    let bytes = proptest::collection::vec(any::<u8>(), 0..9);
    prop_oneof![20 => ascii, 4 => texts, 1 => bytes]
}

proptest! {
    #[test]
    fn values_are_as_numpy_has_them(
        values in proptest::collection::vec(value(), 0..20),
        part in 1usize..12,
    ) {
        let text = shown(&values);
        let (encoding, width, bytes) = expected(&values);
        let lengths = values.iter().map(|value| value.len() as u32).collect();
        let known = ValueEnds::Lengths(lengths);
        let parts = InParts(&text, part);
        let shape = [values.len() as u64];
        let form = fixed(TextForm::of(&info(&shape, text.len()), &parts, &known).unwrap());
        prop_assert_eq!((form.encoding, form.width), (encoding, width));
        prop_assert_eq!(&filled(&form, &parts, &known), &bytes);
        if values.iter().all(|value| !value.contains(&b'\n')) {
            let lines = TextForm::of_lines(&parts).unwrap();
            let lines = fixed(Some(lines));
            prop_assert_eq!((lines.encoding, lines.width), (encoding, width));
            prop_assert_eq!(&filled(&form, &parts, &ValueEnds::Feeds), &bytes);
        }
    }
}

#[test]
fn line_feeds_in_values_are_told_by_the_number_of_lines() {
    let (text, shape) = (b"a\nb\nc\n", info(&[2], 6));
    let parts = InParts(text, 4);
    assert_eq!(
        TextForm::of(&shape, &parts, &ValueEnds::Feeds).unwrap(),
        None
    );
    let known = ValueEnds::Lengths(vec![3, 1]);
    let form = fixed(TextForm::of(&shape, &parts, &known).unwrap());
    assert_eq!(filled(&form, &parts, &known), b"a\nbc\0\0");
}

#[test]
fn a_last_line_needs_no_end() {
    let form = fixed(Some(TextForm::of_lines(&InParts(b"ab\nc", 9)).unwrap()));
    assert_eq!((form.shape.clone(), form.width), (vec![2], 2));
    assert_eq!(
        filled(&form, &InParts(b"ab\nc", 1), &ValueEnds::Feeds),
        b"abc\0"
    );
    let none = fixed(Some(TextForm::of_lines(&InParts(b"", 1)).unwrap()));
    assert_eq!(
        (none.shape.clone(), none.width, none.bytes()),
        (vec![0], 1, 0)
    );
}

#[test]
fn several_dimensions_and_scalars_keep_their_shape() {
    let parts = InParts(b"a\nb\nc\nd\n", 3);
    let form = TextForm::of(&info(&[2, 2], 8), &parts, &ValueEnds::Feeds).unwrap();
    assert_eq!(fixed(form).shape, [2, 2]);
    let scalar = TextForm::of(&info(&[], 4), &InParts(b"abc\n", 3), &ValueEnds::Feeds);
    let scalar = fixed(scalar.unwrap());
    assert_eq!((scalar.shape.len(), scalar.bytes()), (0, 3));
}

#[test]
fn much_text_stays_bytes() {
    let stored = |stored_bytes| Info {
        stored_bytes,
        ..info(&[2], 10)
    };
    assert!(TextForm::may_be_fixed(&stored(STORED_MOST)));
    assert!(!TextForm::may_be_fixed(&stored(STORED_MOST + 1)));
    let decoded = |bytes| Info {
        bytes,
        ..info(&[2], 10)
    };
    assert!(TextForm::may_be_fixed(&decoded(MOST + 2)));
    assert!(!TextForm::may_be_fixed(&decoded(MOST + 3)));
    // One long value among many short ones.
    let mut text = vec![b'x'; 1 << 20];
    text.extend(b"\n".repeat(300));
    let form = TextForm::of_lines(&InParts(&text, 1 << 16)).unwrap();
    assert_eq!(form, TextForm::Bytes);
}

#[test]
fn text_that_has_changed_is_a_fault() {
    let form = fixed(Some(TextForm::of_lines(&InParts(b"ab\nc\n", 9)).unwrap()));
    let mut out = vec![0; form.bytes() as usize];
    for other in [&b"abc\nd\n"[..], b"ab\n", b"a\nb\nc\n"] {
        let filled = form.fill(&InParts(other, 9), &ValueEnds::Feeds, &mut out);
        assert!(filled.is_err(), "{other:?}");
    }
}
