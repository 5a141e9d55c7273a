//! Numbers as text, as NumPy and Python spell them.
//!
//! [`Digits::All`]: the fewest digits that give the same number again. [`Digits::Six`]: six
//! significant ones at most, but all before the point; for eyes, not for programs. Pure. Used by
//! [`super::value`] and the pictures.

/// How many digits of a float are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Digits {
    /// As many as tell it from every other number of its type.
    All,
    /// At most six.
    Six,
}

/// Of larger numbers than this no digits are told one by one.
const PLAIN_MOST: f64 = 1e16;

/// Smaller ones have an exponent.
const PLAIN_LEAST: f64 = 1e-4;

/// A float of `size` bytes.
pub fn float(value: f64, size: usize, digits: Digits) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.into();
    }
    match (digits, size) {
        (Digits::Six, _) => spelled(&six(value)),
        (Digits::All, 4) => spelled(&format!("{:e}", value as f32)),
        (Digits::All, 2) => spelled(&half(value)),
        (Digits::All, _) => spelled(&format!("{value:e}")),
    }
}

/// Six digits for eyes.
pub fn short(value: f64) -> String {
    let text = float(value, 8, Digits::Six);
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// With an exponent, six digits or all before the point.
fn six(value: f64) -> String {
    let rounded = format!("{value:.5e}");
    let exponent = exponent_of(&rounded);
    match exponent > 5 && value.abs() < PLAIN_MOST {
        true => format!("{value:.*e}", exponent as usize),
        false => rounded,
    }
}

fn exponent_of(text: &str) -> i32 {
    let exponent = text.rsplit('e').next();
    exponent.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The fewest digits that are nearer to a half float than to its neighbours.
fn half(value: f64) -> String {
    // Ten bits behind the first, and no exponent below -14.
    let exponent = match value == 0.0 {
        true => -14,
        false => (value.abs().log2().floor() as i32).max(-14),
    };
    // The neighbour towards zero is nearer where the exponent changes.
    let apart = 2f64.powi(exponent - 10);
    let is_power = value.abs() == 2f64.powi(exponent) && exponent > -14;
    let nearest = if is_power { apart / 4.0 } else { apart / 2.0 };
    for digits in 0..6 {
        let text = format!("{value:.digits$e}");
        let read: f64 = text.parse().unwrap_or(f64::NAN);
        if (read - value).abs() < nearest {
            return text;
        }
    }
    format!("{value:e}")
}

/// From `d.ddde-x` to what people write.
fn spelled(text: &str) -> String {
    let Some((mantissa, exponent)) = text.split_once('e') else {
        return text.to_owned();
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let digits = match digits.trim_end_matches('0') {
        "" => "0",
        digits => digits,
    };
    let is_zero = digits == "0";
    let plain_from = PLAIN_LEAST.log10() as i32;
    let plain_to = PLAIN_MOST.log10() as i32;
    if is_zero {
        return format!("{sign}0.0");
    }
    if !(plain_from..plain_to).contains(&exponent) {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let exponent_sign = if exponent < 0 { '-' } else { '+' };
        return format!(
            "{sign}{first}{point}{rest}e{exponent_sign}{:02}",
            exponent.abs()
        );
    }
    if exponent < 0 {
        let zeros = "0".repeat((-exponent - 1) as usize);
        return format!("{sign}0.{zeros}{digits}");
    }
    let before = exponent as usize + 1;
    match digits.len() > before {
        true => {
            let (whole, part) = digits.split_at(before);
            format!("{sign}{whole}.{part}")
        }
        false => format!("{sign}{digits:0<before$}.0"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_look_as_in_python() {
        let all = |value| float(value, 8, Digits::All);
        assert_eq!(all(0.1), "0.1");
        assert_eq!(all(1.0), "1.0");
        assert_eq!(all(-0.0), "-0.0");
        assert_eq!(all(123456.789), "123456.789");
        assert_eq!(all(1e16), "1e+16");
        assert_eq!(all(1e15), "1000000000000000.0");
        assert_eq!(all(0.0001), "0.0001");
        assert_eq!(all(1.5e-5), "1.5e-05");
        assert_eq!(all(f64::NEG_INFINITY), "-inf");
        assert_eq!(float(f64::from(0.1f32), 4, Digits::All), "0.1");
        assert_eq!(float(0.0999755859375, 2, Digits::All), "0.1");
        assert_eq!(float(65504.0, 2, Digits::All), "65500.0");
        assert_eq!(float(5.960464477539063e-8, 2, Digits::All), "6e-08");
    }

    #[test]
    fn six_digits_are_enough_for_eyes() {
        let six = |value| float(value, 8, Digits::Six);
        assert_eq!(six(std::f64::consts::PI), "3.14159");
        assert_eq!(six(1234567.8), "1234568.0");
        assert_eq!(six(0.5), "0.5");
        assert_eq!(six(-12.3456789), "-12.3457");
        assert_eq!(six(9.99999999), "10.0");
        assert_eq!(six(1.23456789e-9), "1.23457e-09");
        assert_eq!((short(3.0), short(2.5)), ("3".into(), "2.5".into()));
    }

    proptest! {
        #[test]
        fn all_digits_give_the_number_again(bits in any::<u64>()) {
            let value = f64::from_bits(bits);
            prop_assume!(!value.is_nan());
            prop_assert_eq!(float(value, 8, Digits::All).parse::<f64>().unwrap(), value);
            let single = f32::from_bits(bits as u32);
            prop_assume!(!single.is_nan());
            let text = float(f64::from(single), 4, Digits::All);
            prop_assert_eq!(text.parse::<f32>().unwrap(), single);
        }

        #[test]
        fn six_digits_are_near(value in -1e20..1e20f64) {
            let read: f64 = float(value, 8, Digits::Six).parse().unwrap();
            prop_assert!((read - value).abs() <= value.abs() * 5e-6);
        }
    }
}
