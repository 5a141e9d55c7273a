//! Types of arrays of which a description says only what NumPy calls them, and of attributes whose
//! value says all. Used by [`super`].

use serde::Deserialize;
use serde_json::Value;

use crate::array::dtype::descr_of_name;
use crate::container::creation::GivenArray;
use crate::container::stored::{Padding, StoredType};

/// The type that HDF5's own spelling gives an array; none if there is none, or it is another
/// format's.
pub(super) fn stated(array: &GivenArray) -> Option<&Value> {
    array
        .more
        .get("type")
        .filter(|stated| match stated.as_str() {
            Some(name) => name.starts_with("H5T_"),
            None => stated.is_object(),
        })
}

/// A type as it is stated.
pub(super) fn read(stated: Option<&Value>) -> Result<StoredType, String> {
    let stated = stated.ok_or("its type is not said")?;
    Deserialize::deserialize(stated).map_err(|why| format!("its type: {why}"))
}

/// The type of what NumPy names or spells so.
pub(super) fn of_dtype(dtype: &str) -> Option<StoredType> {
    if dtype == "str" {
        return Some(StoredType::TEXT);
    }
    let descr = descr_of_name(dtype);
    let (order, kind) = (descr.chars().next()?, descr.chars().nth(1)?);
    let order = match order {
        '<' | '|' => "LE",
        '>' => "BE",
        _ => return None,
    };
    let digits: String = descr.chars().skip(2).collect();
    let size: u64 = digits.parse().ok()?;
    let number = |family: &str, size: u64| {
        StoredType::of_name(&format!("H5T_{family}{}{order}", size.checked_mul(8)?))
    };
    match kind {
        'b' if size == 1 => Some(StoredType::boolean()),
        'i' => number("STD_I", size),
        'u' => number("STD_U", size),
        'f' => number("IEEE_F", size),
        'c' if matches!(size, 8 | 16) => complex(number("IEEE_F", size / 2)?, size / 2),
        'S' => Some(StoredType::fixed(size, Padding::Zeros)),
        'V' => Some(StoredType::opaque(size)),
        'M' | 'm' => Some(StoredType::Opaque {
            size: 8,
            tag: format!("NUMPY:{descr}"),
        }),
        _ => None,
    }
}

fn complex(part: StoredType, size: u64) -> Option<StoredType> {
    let members = vec![("r".into(), 0, part.clone()), ("i".into(), size, part)];
    let size = 2 * size;
    Some(StoredType::Compound { size, members })
}

/// How many dimensions of an array's shape are those of its elements.
pub(super) fn inner_rank(mut stated: &StoredType) -> usize {
    let mut rank = 0;
    while let StoredType::Array { dims, base } = stated {
        rank += dims.len();
        stated = base;
    }
    rank
}

/// The type and shape of an attribute whose value tells them: text, numbers, truth, and lists of
/// one of these.
pub(super) fn of_value(value: &Value) -> Option<(StoredType, Vec<u64>)> {
    let (mut dims, mut first) = (Vec::new(), value);
    while let Value::Array(list) = first {
        dims.push(list.len() as u64);
        first = list.first()?;
    }
    let mut leaves = Vec::new();
    gather(value, &mut leaves);
    let all = |is: fn(&Value) -> bool| leaves.iter().all(|leaf| is(leaf));
    let element = match first {
        Value::String(_) if all(Value::is_string) => StoredType::TEXT,
        Value::Bool(_) if all(Value::is_boolean) => StoredType::boolean(),
        Value::Number(_) if all(Value::is_i64) => StoredType::called("H5T_STD_I64LE"),
        Value::Number(_) if all(Value::is_u64) => StoredType::called("H5T_STD_U64LE"),
        Value::Number(_) if all(Value::is_number) => StoredType::called("H5T_IEEE_F64LE"),
        _ => return None,
    };
    Some((element, dims))
}

fn gather<'a>(value: &'a Value, leaves: &mut Vec<&'a Value>) {
    match value {
        Value::Array(list) => list.iter().for_each(|one| gather(one, leaves)),
        leaf => leaves.push(leaf),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_numpy_names_has_a_type() {
        let is = |dtype: &str, stated: Value| {
            let found = of_dtype(dtype).map(|found| json!(found));
            assert_eq!(found, Some(stated), "{dtype}");
        };
        is("uint8", json!("H5T_STD_U8LE"));
        is(">f8", json!("H5T_IEEE_F64BE"));
        is("float16", json!("H5T_IEEE_F16LE"));
        is(
            "|S9",
            json!({"class": "H5T_STRING", "size": 9, "padding": "NULLPAD", "charset": "ASCII"}),
        );
        let members = json!([["r", 0, "H5T_IEEE_F32LE"], ["i", 4, "H5T_IEEE_F32LE"]]);
        is(
            "complex64",
            json!({"class": "H5T_COMPOUND", "size": 8, "members": members}),
        );
        assert!(of_dtype("str").unwrap().is_text() && !of_dtype("|S9").unwrap().is_text());
        for none in ["", "<", "<i3", "=i4", "[('a', '<i4')]", "<U3", "é1", "<fé"] {
            assert_eq!(of_dtype(none), None, "{none}");
        }
    }

    #[test]
    fn values_tell_their_type_where_all_are_of_one_kind() {
        let called = StoredType::called;
        assert_eq!(of_value(&json!("x")), Some((StoredType::TEXT, vec![])));
        let stated = of_value(&json!([[1, 2, 3], [4, 5, 6]]));
        assert_eq!(stated, Some((called("H5T_STD_I64LE"), vec![2, 3])));
        let mixed = of_value(&json!([1.5, 2])).unwrap();
        assert_eq!(mixed.0, called("H5T_IEEE_F64LE"));
        assert_eq!(of_value(&json!([true])).unwrap().1, [1]);
        for none in [json!(null), json!([]), json!([1, "x"]), json!({})] {
            assert_eq!(of_value(&none), None, "{none}");
        }
        let array = json!({"class": "H5T_ARRAY", "dims": [2, 3], "base": "H5T_STD_I8LE"});
        assert_eq!(inner_rank(&read(Some(&array)).unwrap()), 2);
    }
}
