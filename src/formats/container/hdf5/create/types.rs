//! Types of arrays of which a description says only what NumPy calls them, and of attributes whose
//! value says all; as `arrays.json` spells types. Used by [`super`].

use serde_json::{Value, json};

use crate::array::dtype::descr_of_name;
use crate::container::creation::GivenArray;

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

/// The type of what NumPy names or spells so.
pub(super) fn of_dtype(dtype: &str) -> Option<Value> {
    if dtype == "str" {
        return Some(text());
    }
    let descr = descr_of_name(dtype);
    let (order, kind) = (descr.chars().next()?, descr.chars().nth(1)?);
    let order = match order {
        '<' | '|' => "LE",
        '>' => "BE",
        _ => return None,
    };
    let digits: String = descr.chars().skip(2).collect();
    let size: Option<u64> = digits.parse().ok();
    let sized = |sizes: &[u64]| {
        size.filter(|size| sizes.contains(size))
            .map(|size| 8 * size)
    };
    let float = |bits: u64| format!("H5T_IEEE_F{bits}{order}");
    Some(match kind {
        'b' if size == Some(1) => boolean(),
        'i' => json!(format!("H5T_STD_I{}{order}", sized(&[1, 2, 4, 8])?)),
        'u' => json!(format!("H5T_STD_U{}{order}", sized(&[1, 2, 4, 8])?)),
        'f' => json!(float(sized(&[2, 4, 8])?)),
        'c' => complex(&float(sized(&[8, 16])? / 2), size? / 2),
        'S' => {
            json!({"class": "H5T_STRING", "size": size?, "padding": "NULLPAD", "charset": "ASCII"})
        }
        'V' => json!({"class": "H5T_OPAQUE", "size": size?, "tag": ""}),
        'M' | 'm' => json!({"class": "H5T_OPAQUE", "size": 8, "tag": format!("NUMPY:{descr}")}),
        _ => return None,
    })
}

/// As h5py stores it.
fn boolean() -> Value {
    let members = [json!(["FALSE", 0]), json!(["TRUE", 1])];
    json!({"class": "H5T_ENUM", "base": "H5T_STD_I8LE", "members": members})
}

fn complex(part: &str, size: u64) -> Value {
    let members = [json!(["r", 0, part]), json!(["i", size, part])];
    json!({"class": "H5T_COMPOUND", "size": 2 * size, "members": members})
}

/// Of variable length.
pub(super) fn text() -> Value {
    json!({"class": "H5T_STRING", "padding": "NULLTERM", "charset": "UTF-8"})
}

/// Of so many bytes, a NUL at the end counted.
pub(super) fn fixed_text(size: usize) -> Value {
    json!({"class": "H5T_STRING", "size": size, "padding": "NULLTERM", "charset": "ASCII"})
}

/// Whether elements are strings of variable length.
pub(super) fn is_text(stated: &Value) -> bool {
    stated["class"] == "H5T_STRING" && stated.get("size").is_none()
}

/// How many dimensions of an array's shape are those of its elements.
pub(super) fn inner_rank(mut stated: &Value) -> usize {
    let mut rank = 0;
    while stated["class"] == "H5T_ARRAY" {
        rank += stated["dims"].as_array().map_or(0, Vec::len);
        stated = &stated["base"];
    }
    rank
}

/// The type and shape of an attribute whose value tells them: text, numbers, truth, and lists of
/// one of these.
pub(super) fn of_value(value: &Value) -> Option<(Value, Vec<u64>)> {
    let (mut dims, mut first) = (Vec::new(), value);
    while let Value::Array(list) = first {
        dims.push(list.len() as u64);
        first = list.first()?;
    }
    let mut leaves = Vec::new();
    gather(value, &mut leaves);
    let all = |is: fn(&Value) -> bool| leaves.iter().all(|leaf| is(leaf));
    let element = match first {
        Value::String(_) if all(Value::is_string) => text(),
        Value::Bool(_) if all(Value::is_boolean) => boolean(),
        Value::Number(_) if all(Value::is_i64) => json!("H5T_STD_I64LE"),
        Value::Number(_) if all(Value::is_u64) => json!("H5T_STD_U64LE"),
        Value::Number(_) if all(Value::is_number) => json!("H5T_IEEE_F64LE"),
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
    use super::*;

    #[test]
    fn what_numpy_names_has_a_type() {
        let is = |dtype: &str, stated: Value| assert_eq!(of_dtype(dtype), Some(stated), "{dtype}");
        is("uint8", json!("H5T_STD_U8LE"));
        is(">f8", json!("H5T_IEEE_F64BE"));
        is("float16", json!("H5T_IEEE_F16LE"));
        assert_eq!(of_dtype("|S9").unwrap()["size"], 9);
        assert_eq!(
            of_dtype("complex64").unwrap()["members"][1][2],
            "H5T_IEEE_F32LE"
        );
        assert!(is_text(&of_dtype("str").unwrap()) && !is_text(&of_dtype("|S9").unwrap()));
        for none in ["", "<", "<i3", "=i4", "[('a', '<i4')]", "<U3", "é1", "<fé"] {
            assert_eq!(of_dtype(none), None, "{none}");
        }
    }

    #[test]
    fn values_tell_their_type_where_all_are_of_one_kind() {
        assert_eq!(of_value(&json!("x")), Some((text(), vec![])));
        let stated = of_value(&json!([[1, 2, 3], [4, 5, 6]]));
        assert_eq!(stated, Some((json!("H5T_STD_I64LE"), vec![2, 3])));
        assert_eq!(of_value(&json!([1.5, 2])).unwrap().0, "H5T_IEEE_F64LE");
        assert_eq!(of_value(&json!([true])).unwrap().1, [1]);
        for none in [json!(null), json!([]), json!([1, "x"]), json!({})] {
            assert_eq!(of_value(&none), None, "{none}");
        }
        let array = json!({"class": "H5T_ARRAY", "dims": [2, 3], "base": "H5T_STD_I8LE"});
        assert_eq!(inner_rank(&array), 2);
    }
}
