//! What stored numbers mean by the conventions for climate and forecast data (CF): `scale_factor`,
//! `add_offset`, `_FillValue`, `missing_value`, `units`.
//!
//! Attributes come from files: what is not a number there is ignored. Pure. Used by the commands
//! that show values.

use serde_json::{Map, Value};

use super::element::ElementType;
use super::value::ElementNumber;

/// How the numbers of an array are to be read.
#[derive(Debug, Clone, PartialEq)]
pub struct PhysicalScale {
    scale: f64,
    offset: f64,
    /// Numbers that stand for none.
    missing: Vec<ElementNumber>,
    /// Of the result.
    pub units: Option<String>,
}

impl PhysicalScale {
    /// What the attributes of an array say. `element`: its type, in which values that stand for
    /// none are stored.
    pub fn of(attributes: &Map<String, Value>, element: &ElementType) -> PhysicalScale {
        let first = |name: &str| attributes.get(name).and_then(|value| numbers(value).pop());
        let units = attributes.get("units").and_then(Value::as_str);
        let missing = ["_FillValue", "missing_value"].iter();
        let missing = missing.filter_map(|name| attributes.get(*name));
        PhysicalScale {
            scale: first("scale_factor").map_or(1.0, ElementNumber::as_f64),
            offset: first("add_offset").map_or(0.0, ElementNumber::as_f64),
            missing: missing
                .flat_map(numbers)
                .map(|value| as_stored(value, element))
                .collect(),
            units: units.map(str::to_owned),
        }
    }

    /// The same in a NetCDF file, where elements that were never written have a value of their
    /// type's, unless the attributes name another.
    pub fn of_netcdf(attributes: &Map<String, Value>, element: &ElementType) -> PhysicalScale {
        let mut scale = PhysicalScale::of(attributes, element);
        if !attributes.contains_key("_FillValue") {
            scale.missing.extend(default_fill(element));
        }
        scale
    }

    /// Nothing stands for anything else.
    pub fn none() -> PhysicalScale {
        PhysicalScale {
            scale: 1.0,
            offset: 0.0,
            missing: Vec::new(),
            units: None,
        }
    }

    /// Whether numbers become others.
    pub fn is_scaled(&self) -> bool {
        (self.scale, self.offset) != (1.0, 0.0)
    }

    /// Whether a number stands for none.
    pub fn is_missing(&self, value: ElementNumber) -> bool {
        self.missing.iter().any(|missing| match (*missing, value) {
            (ElementNumber::Float(a), ElementNumber::Float(b)) => {
                a == b || (a.is_nan() && b.is_nan())
            }
            (a, b) => a == b,
        })
    }

    /// Whether there are such numbers.
    pub fn has_missing(&self) -> bool {
        !self.missing.is_empty()
    }

    /// What a number means.
    pub fn apply(&self, value: ElementNumber) -> f64 {
        value.as_f64() * self.scale + self.offset
    }

    /// In words: `value * 0.01 + 273.15`.
    pub fn formula(&self) -> String {
        format!("value * {} + {}", self.scale, self.offset)
    }
}

/// NetCDF's fill value of a type (`NC_FILL_SHORT` and the like); bytes have none, for all of their
/// values are wanted.
fn default_fill(element: &ElementType) -> Option<ElementNumber> {
    const FLOAT: f32 = 9.969_21e36;
    let integer = |number| Some(ElementNumber::Integer(number));
    match element {
        ElementType::Float { size: 4 | 8, .. } => Some(ElementNumber::Float(f64::from(FLOAT))),
        ElementType::Integer { size, signed, .. } => match (size, signed) {
            (2, true) => integer(-32_767),
            (2, false) => integer(65_535),
            (4, true) => integer(-2_147_483_647),
            (4, false) => integer(4_294_967_295),
            (8, true) => integer(-9_223_372_036_854_775_806),
            (8, false) => integer(18_446_744_073_709_551_614),
            _ => None,
        },
        _ => None,
    }
}

/// The numbers of an attribute: one, a list, or the words for those that JSON has none for.
fn numbers(value: &Value) -> Vec<ElementNumber> {
    match value {
        Value::Number(number) => {
            let integer = number.as_i64().map(i128::from);
            let integer = integer.or(number.as_u64().map(i128::from));
            let integer = integer.map(ElementNumber::Integer);
            integer
                .or(number.as_f64().map(ElementNumber::Float))
                .into_iter()
                .collect()
        }
        Value::String(text) => text
            .parse()
            .ok()
            .map(ElementNumber::Float)
            .into_iter()
            .collect(),
        Value::Array(items) => items.iter().flat_map(numbers).collect(),
        _ => Vec::new(),
    }
}

/// A value as an element of this type has it.
fn as_stored(value: ElementNumber, element: &ElementType) -> ElementNumber {
    match (element, value) {
        (ElementType::Float { size: 4, .. }, value) => {
            ElementNumber::Float(f64::from(value.as_f64() as f32))
        }
        (ElementType::Float { .. }, value) => ElementNumber::Float(value.as_f64()),
        (_, ElementNumber::Float(value)) if value == value.trunc() && value.abs() < 1e18 => {
            ElementNumber::Integer(value as i128)
        }
        (_, value) => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn scale(attributes: Value, element: &ElementType) -> PhysicalScale {
        PhysicalScale::of(attributes.as_object().unwrap(), element)
    }

    #[test]
    fn packed_numbers_are_unpacked() {
        let short = ElementType::Integer {
            size: 2,
            signed: true,
            big: false,
            names: None,
        };
        let attributes = json!({"scale_factor": 0.5, "add_offset": [10], "_FillValue": -1,
            "missing_value": [-2.0, -3], "units": "K"});
        let scale = scale(attributes, &short);
        assert!(scale.is_scaled());
        assert_eq!(scale.apply(ElementNumber::Integer(4)), 12.0);
        for (value, missing) in [(-1, true), (-2, true), (-3, true), (-4, false)] {
            assert_eq!(scale.is_missing(ElementNumber::Integer(value)), missing);
        }
        assert_eq!(scale.units.as_deref(), Some("K"));
    }

    #[test]
    fn netcdf_has_a_fill_where_none_is_named() {
        let single = ElementType::Float {
            size: 4,
            big: false,
        };
        let of =
            |attributes: Value| PhysicalScale::of_netcdf(attributes.as_object().unwrap(), &single);
        let fill = ElementNumber::Float(f64::from(9.969_209_968_386_869e36_f32));
        assert!(of(json!({"units": "K"})).is_missing(fill));
        assert!(!of(json!({"_FillValue": -1})).is_missing(fill));
        assert!(!scale(json!({}), &single).is_missing(fill));
    }

    #[test]
    fn fills_of_floats_are_those_of_their_size() {
        let single = ElementType::Float {
            size: 4,
            big: false,
        };
        let scale = scale(json!({"_FillValue": 1e20, "missing_value": "NaN"}), &single);
        assert!(scale.is_missing(ElementNumber::Float(f64::from(1e20f32))));
        assert!(scale.is_missing(ElementNumber::Float(f64::NAN)));
        assert!(!scale.is_scaled() && !scale.is_missing(ElementNumber::Float(0.0)));
        let odd = json!({"scale_factor": "x", "_FillValue": null, "units": 3});
        let odd = PhysicalScale::of(odd.as_object().unwrap(), &single);
        assert_eq!(odd, PhysicalScale::none());
    }
}
