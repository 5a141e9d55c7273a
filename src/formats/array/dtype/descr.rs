//! Types as NumPy spells them (`dtype.descr`): a code, or a list of fields.
//!
//! What is not understood is no fault: the format shows bytes then. Used by formats that keep such
//! spellings.

use serde_json::Value;

use super::Dtype;
use super::literal::Literal;

/// Longest spelling of a type that is taken; an extended attribute must hold it.
const MAX_DESCR: usize = 32 << 10;

/// NumPy's own limit of dimensions.
pub(crate) const MAX_DIMS: usize = 64;

impl Dtype {
    /// A type as NumPy spells it, in JSON: a literal inside the string is tried first, as readers
    /// do, then the forms of old files. None if nothing in it is known, or it holds nothing.
    pub(crate) fn of_descr(value: &Value) -> Option<Dtype> {
        let literal = match value {
            Value::String(text) if text.len() > MAX_DESCR => return None,
            Value::String(text) => {
                Literal::parse(text).unwrap_or_else(|| Literal::Str(text.trim().to_owned()))
            }
            other => Literal::from_json(other)?,
        };
        let (descr, itemsize) = match &literal {
            Literal::Str(code) => scalar(code)?,
            list => {
                let (descr, itemsize) = structure(list)?;
                (descr.to_string(), itemsize)
            }
        };
        (itemsize > 0 && descr.len() <= MAX_DESCR).then_some(Dtype::Descr { descr, itemsize })
    }
}

/// A type code such as `<f8`, `|S3` or `<M8[ns]` as NumPy spells it, and its size.
fn scalar(code: &str) -> Option<(String, u64)> {
    let mut chars = code.chars();
    let order = chars.next().filter(|c| matches!(c, '<' | '>' | '|'))?;
    let kind = chars.next()?;
    let (digits, unit) = match chars.as_str().split_once('[') {
        Some((digits, unit)) => (digits, Some(unit.strip_suffix(']')?)),
        None => (chars.as_str(), None),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let n: u64 = digits.parse().ok()?;
    let dated = matches!(kind, 'M' | 'm');
    if unit.is_some_and(|unit| !dated || !unit.bytes().all(|b| b.is_ascii_alphanumeric())) {
        return None;
    }
    let size = scalar_size(kind, n)?;
    // One byte, and strings of bytes, have no byte order.
    let orderless = n == 1 && kind != 'U' || matches!(kind, 'S' | 'a' | 'V');
    let (order, kind) = match (order, orderless) {
        (_, true) => ('|', if kind == 'a' { 'S' } else { kind }),
        ('|', false) => return None,
        (order, false) => (order, kind),
    };
    let unit = unit.map_or(String::new(), |unit| format!("[{unit}]"));
    Some((format!("{order}{kind}{n}{unit}"), size))
}

fn scalar_size(kind: char, n: u64) -> Option<u64> {
    let sizes: &[u64] = match kind {
        'S' | 'a' | 'V' => return Some(n),
        'U' => return n.checked_mul(4),
        'b' => &[1],
        'i' | 'u' => &[1, 2, 4, 8],
        'f' => &[2, 4, 8, 12, 16],
        'c' => &[8, 16, 24, 32],
        'M' | 'm' => &[8],
        _ => return None,
    };
    sizes.contains(&n).then_some(n)
}

/// A list of fields, spelled as `dtype.descr` is, and the size of the record.
fn structure(list: &Literal) -> Option<(Literal, u64)> {
    let Literal::List(fields) = list else {
        return None;
    };
    if fields.is_empty() {
        return None;
    }
    let mut size: u64 = 0;
    let mut spelled = Vec::with_capacity(fields.len());
    for each in fields {
        let (field, len) = field(each)?;
        size = size.checked_add(len)?;
        spelled.push(field);
    }
    Some((Literal::List(spelled), size))
}

/// `(name, type)` or `(name, type, shape)`; the name may be `(title, name)`. Nesting is bounded by
/// that of the literal.
fn field(literal: &Literal) -> Option<(Literal, u64)> {
    let (name, kind, shape) = match literal.items()? {
        [name, kind] => (name, kind, None),
        [name, kind, shape] => (name, kind, Some(shape)),
        _ => return None,
    };
    let (kind, size) = match kind {
        Literal::Str(code) => scalar(code).map(|(code, size)| (Literal::Str(code), size))?,
        list => structure(list)?,
    };
    let mut spelled = vec![field_name(name)?, kind];
    let mut size = size;
    if let Some(shape) = shape {
        let dims = match shape {
            Literal::Int(n) => vec![*n],
            list => list.items()?.iter().map(dimension).collect::<Option<_>>()?,
        };
        size = product(&dims, size).filter(|_| dims.len() <= MAX_DIMS)?;
        spelled.push(Literal::Tuple(dims.into_iter().map(Literal::Int).collect()));
    }
    Some((Literal::Tuple(spelled), size))
}

fn dimension(literal: &Literal) -> Option<u64> {
    match literal {
        Literal::Int(n) => Some(*n),
        _ => None,
    }
}

fn field_name(literal: &Literal) -> Option<Literal> {
    match literal {
        Literal::Str(_) => Some(literal.clone()),
        other => match other.items()? {
            both @ [Literal::Str(_), Literal::Str(_)] => Some(Literal::Tuple(both.to_vec())),
            _ => None,
        },
    }
}

/// Elements of a shape times the size of one; none if no number holds it. A zero anywhere makes the
/// product zero, however large the rest.
pub(crate) fn product(shape: &[u64], itemsize: u64) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape
        .iter()
        .try_fold(itemsize, |product, &dim| product.checked_mul(dim))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn descr(value: Value) -> Option<(String, u64)> {
        match Dtype::of_descr(&value)? {
            Dtype::Descr { descr, itemsize } => Some((descr, itemsize)),
            _ => None,
        }
    }

    #[test]
    fn plain_types() {
        for (code, size) in [
            ("<f8", 8),
            (">i4", 4),
            ("|b1", 1),
            ("|S255", 255),
            (">U3", 12),
            ("<U1", 4),
            ("<M8[ns]", 8),
            ("<m8[25us]", 8),
            ("|V5", 5),
            ("<f16", 16),
            ("<c8", 8),
        ] {
            assert_eq!(
                descr(json!(format!("'{code}'"))),
                Some((code.to_owned(), size))
            );
            assert_eq!(
                descr(json!(code)),
                Some((code.to_owned(), size)),
                "the old form"
            );
        }
        assert_eq!(descr(json!("'<u1'")), Some(("|u1".to_owned(), 1)));
        for code in [
            "|O", "f8", "<f3", "<f", "|S0", "<M8[a']", "<i8[ns]", "|i4", "<S", "", "<f8 ",
        ] {
            assert_eq!(descr(json!(format!("'{code}'"))), None, "{code}");
        }
        assert_eq!(descr(json!("'|S99999999999999999999'")), None);
        assert_eq!(descr(json!(format!("'<U{}'", u64::MAX))), None);
    }

    #[test]
    fn structures() {
        let nested = "[('p', [('x', '<f4'), ('y', '<i2')]), ('m', '<u2', (2, 3)), ('ok', '|b1')]";
        assert_eq!(descr(json!(nested)), Some((nested.to_owned(), 19)));
        let padded = "[('a', '|u1'), ('', '|V7'), (('title', 'b'), '<f8')]";
        assert_eq!(descr(json!(padded)), Some((padded.to_owned(), 16)));
        let old = json!([["a", "<f4"], ["b", [["c", "<i4"]]], [["t", "d"], "<i2", 3]]);
        let spelled = "[('a', '<f4'), ('b', [('c', '<i4')]), (('t', 'd'), '<i2', (3,))]";
        assert_eq!(descr(old), Some((spelled.to_owned(), 14)));
        for bad in [
            "[]",
            "[('a',)]",
            "['<f8']",
            "('<f8', (2,))",
            "[('a', '|O8')]",
            "[(1, '<f4')]",
        ] {
            assert_eq!(descr(json!(bad)), None, "{bad}");
        }
        let huge = format!("[('a', '<f8', ({}, {}))]", u64::MAX, u64::MAX);
        assert_eq!(descr(json!(huge)), None);
    }
}
