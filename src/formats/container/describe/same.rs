//! Whether two `arrays.json` say the same of a container: of how much room its arrays take neither
//! says anything. Used by `tree::writing` for copies onto a container.

use serde_json::Value;

use super::value_room;
use crate::error::Result;
use crate::memory::set_aside;

/// Members of an array that follow from how its data have been packed.
const PACKED: [&str; 2] = ["stored_bytes", "blocks"];

/// False also if one cannot be read.
pub fn say_the_same(one: &[u8], other: &[u8]) -> Result<bool> {
    let room = value_room(one).saturating_add(value_room(other));
    let comparing = "cannot compare what describes a container";
    set_aside(room, comparing, || match (said(one), said(other)) {
        (Some(one), Some(other)) => one == other,
        _ => false,
    })
}

fn said(text: &[u8]) -> Option<Value> {
    let mut said: Value = serde_json::from_slice(text).ok()?;
    let arrays = said.get_mut("arrays").and_then(Value::as_array_mut);
    for array in arrays.into_iter().flatten() {
        if let Some(members) = array.as_object_mut() {
            members.retain(|name, _| !PACKED.contains(&name.as_str()));
        }
    }
    Some(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_how_well_arrays_are_packed_may_differ() {
        let of = |array: &str| format!(r#"{{"format": "x", "arrays": [{{"name": "a"{array}}}]}}"#);
        let same = |one: &str, other: &str| {
            say_the_same(of(one).as_bytes(), of(other).as_bytes()).unwrap()
        };
        assert!(same(
            r#", "stored_bytes": 3, "blocks": 1"#,
            r#", "stored_bytes": 4"#
        ));
        assert!(!same(r#", "shape": [1]"#, r#", "shape": [2]"#));
        assert!(!same(r#", "dtype": "int8""#, ""));
        assert!(!say_the_same(b"{", b"{").unwrap());
        assert!(say_the_same(b"{}", b" {} ").unwrap());
    }
}
