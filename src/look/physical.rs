//! What stored numbers mean by the conventions for climate and forecast data (CF): `scale_factor`,
//! `add_offset`, `_FillValue`, `missing_value`, `valid_range`, `_Unsigned`, `units`.
//!
//! Attributes come from files: what is not a number there is ignored. Pure. Used by the commands
//! that show values.

use serde_json::{Map, Value};

use super::element::ElementType;
use super::number_text::{Digits, float};
use super::value::ElementNumber;

/// Values of an attribute that are taken for those that stand for none: every number of an array is
/// compared with them.
const MISSING_MOST: usize = 64;

/// How the numbers of an array are to be read.
#[derive(Debug, Clone, PartialEq)]
pub struct PhysicalScale {
    scale: f64,
    offset: f64,
    /// Numbers that stand for none.
    missing: Vec<ElementNumber>,
    /// The least and the most that are none of these, stored.
    valid: (Option<ElementNumber>, Option<ElementNumber>),
    /// Bits of integers that are stored with a sign, and mean numbers without one.
    unsigned_bits: Option<u32>,
    /// Of the result.
    pub units: Option<String>,
}

impl PhysicalScale {
    /// What the attributes of an array say. `element`: its type, in which values that stand for
    /// none are stored.
    pub fn of(attributes: &Map<String, Value>, element: &ElementType) -> PhysicalScale {
        let unsigned_bits = unsigned_bits(attributes, element);
        let stored = |value| unsigned(as_stored(value, element), unsigned_bits);
        let numbers_of = |name: &str| attributes.get(name).map(numbers).unwrap_or_default();
        // Where there are several, nobody says which of the values they are for.
        let only = |name: &str| match numbers_of(name)[..] {
            [only] => Some(only.as_f64()),
            _ => None,
        };
        // Of packed numbers, limits that are no integers are those of what they mean.
        let is_integer = matches!(element, ElementType::Integer { .. });
        let limit = |value| match value {
            ElementNumber::Float(_) if is_integer => None,
            value => Some(stored(value)),
        };
        let limit_of = |name: &str| match numbers_of(name)[..] {
            [only] => limit(only),
            _ => None,
        };
        let valid = match numbers_of("valid_range")[..] {
            [least, most] => (limit(least), limit(most)),
            _ => (limit_of("valid_min"), limit_of("valid_max")),
        };
        let units = attributes.get("units").and_then(Value::as_str);
        let missing = ["_FillValue", "missing_value"].into_iter();
        PhysicalScale {
            scale: only("scale_factor").unwrap_or(1.0),
            offset: only("add_offset").unwrap_or(0.0),
            missing: missing
                .flat_map(|name| numbers_of(name).into_iter().take(MISSING_MOST))
                .map(stored)
                .collect(),
            valid,
            unsigned_bits,
            units: units.map(str::to_owned),
        }
    }

    /// What the attributes of an array in a NetCDF file say, where elements that were never written
    /// have a value of their type's, unless the attributes name another.
    pub fn of_netcdf(attributes: &Map<String, Value>, element: &ElementType) -> PhysicalScale {
        let mut scale = PhysicalScale::of(attributes, element);
        if !attributes.contains_key("_FillValue") {
            let fill = default_fill(element);
            scale
                .missing
                .extend(fill.map(|fill| unsigned(fill, scale.unsigned_bits)));
        }
        scale
    }

    /// Nothing stands for anything else.
    pub fn none() -> PhysicalScale {
        PhysicalScale {
            scale: 1.0,
            offset: 0.0,
            missing: Vec::new(),
            valid: (None, None),
            unsigned_bits: None,
            units: None,
        }
    }

    /// Whether numbers become others.
    pub fn is_scaled(&self) -> bool {
        (self.scale, self.offset) != (1.0, 0.0) || self.unsigned_bits.is_some()
    }

    /// Whether a number stands for none.
    pub fn is_missing(&self, value: ElementNumber) -> bool {
        let value = unsigned(value, self.unsigned_bits);
        let (least, most) = self.valid;
        if least.is_some_and(|least| is_less(value, least))
            || most.is_some_and(|most| is_less(most, value))
        {
            return true;
        }
        self.missing.iter().any(|missing| match (*missing, value) {
            (ElementNumber::Float(a), ElementNumber::Float(b)) => {
                a == b || (a.is_nan() && b.is_nan())
            }
            (a, b) => a == b,
        })
    }

    /// Whether there are such numbers.
    pub fn has_missing(&self) -> bool {
        !self.missing.is_empty() || self.valid != (None, None)
    }

    /// What a number means.
    pub fn apply(&self, value: ElementNumber) -> f64 {
        unsigned(value, self.unsigned_bits).as_f64() * self.scale + self.offset
    }

    /// In words: `value * 0.01 + 273.15`.
    pub fn formula(&self) -> String {
        let text = |value: f64| {
            let text = float(value, 8, Digits::All);
            text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
        };
        let value = match self.unsigned_bits {
            Some(_) => "(value without a sign)",
            None => "value",
        };
        format!("{value} * {} + {}", text(self.scale), text(self.offset))
    }
}

/// Bits of integers that `_Unsigned` says have no sign, although their type has one.
fn unsigned_bits(attributes: &Map<String, Value>, element: &ElementType) -> Option<u32> {
    let is_said = match attributes.get("_Unsigned")? {
        Value::String(text) => text.eq_ignore_ascii_case("true"),
        Value::Bool(said) => *said,
        _ => false,
    };
    match element {
        ElementType::Integer {
            size, signed: true, ..
        } if is_said => u32::try_from(*size).ok()?.checked_mul(8),
        _ => None,
    }
}

/// An integer of so many bits without its sign.
fn unsigned(value: ElementNumber, bits: Option<u32>) -> ElementNumber {
    match (value, bits) {
        (ElementNumber::Integer(number), Some(bits)) if number < 0 => {
            let all = 1i128.checked_shl(bits).unwrap_or(0);
            ElementNumber::Integer(number.saturating_add(all))
        }
        (value, _) => value,
    }
}

fn is_less(a: ElementNumber, b: ElementNumber) -> bool {
    match (a, b) {
        (ElementNumber::Integer(a), ElementNumber::Integer(b)) => a < b,
        (a, b) => a.as_f64() < b.as_f64(),
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
    fn integers_without_a_sign_are_read_as_such() {
        let byte = ElementType::Integer {
            size: 1,
            signed: true,
            big: false,
            names: None,
        };
        let of = json!({"_Unsigned": "true", "scale_factor": 0.5, "_FillValue": -2,
            "valid_range": [1, -1]});
        let scale = scale(of, &byte);
        let integer = ElementNumber::Integer;
        assert_eq!(scale.apply(integer(-1)), 127.5);
        assert!(scale.is_missing(integer(-2)) && scale.is_missing(integer(0)));
        assert!(!scale.is_missing(integer(-1)) && !scale.is_missing(integer(5)));
    }

    #[test]
    fn only_a_single_factor_is_one() {
        let double = ElementType::Float {
            size: 8,
            big: false,
        };
        let many = scale(json!({"scale_factor": [2, 3], "valid_max": 7}), &double);
        assert!(!many.is_scaled() && many.is_missing(ElementNumber::Float(7.5)));
        let tiny = scale(json!({"scale_factor": 1e-300}), &double);
        assert_eq!(tiny.formula(), "value * 1e-300 + 0");
    }

    #[test]
    fn netcdf_has_a_fill_where_none_is_named() {
        let single = ElementType::Float {
            size: 4,
            big: false,
        };
        let of =
            |attributes: Value| PhysicalScale::of_netcdf(attributes.as_object().unwrap(), &single);
        let fill = ElementNumber::Float(f64::from(9.969_21e36_f32));
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
