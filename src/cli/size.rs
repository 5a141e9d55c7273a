//! Sizes for people: `64M` in, `1.5 MiB` out.

/// Bytes, or a number, also with a decimal point, and K, M, G or T (powers of 1024; `KiB`, `MB` and
/// the like are taken too). What is left of a byte is cut off.
pub(super) fn parse(text: &str) -> Result<u64, String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit
        .to_ascii_uppercase()
        .trim_end_matches('B')
        .trim_end_matches('I')
    {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => {
            return Err(format!(
                "'{text}' is not a size: expected a number and K, M, G or T"
            ));
        }
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let not_a_number = || match shift == 0 && number.contains('.') {
        true => format!("'{text}' is no number of bytes: a fraction needs K, M, G or T"),
        false => format!("'{text}' is not a size: expected a number first"),
    };
    let parts = whole.parse::<u64>().ok().zip(fraction_of(fraction, shift));
    let (whole, fraction) = parts.ok_or_else(not_a_number)?;
    whole
        .checked_mul(1 << shift)
        .and_then(|bytes| bytes.checked_add(fraction))
        .ok_or_else(|| format!("'{text}' is too large"))
}

/// What stands behind the point, of a unit of two to the power of `shift`. Of a byte there is none.
fn fraction_of(digits: &str, shift: u32) -> Option<u64> {
    let decimals = u32::try_from(digits.len())
        .ok()
        .filter(|n| (1..=12).contains(n))?;
    let number: u64 = digits.parse().ok()?;
    if shift == 0 && number != 0 {
        return None;
    }
    let bytes = (u128::from(number) << shift) / 10_u128.pow(decimals);
    bytes.try_into().ok()
}

/// Four significant characters and a unit.
pub(super) fn show(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse("0"), Ok(0));
        assert_eq!(parse("4096"), Ok(4096));
        assert_eq!(parse("64M"), Ok(64 << 20));
        assert_eq!(parse("1g"), Ok(1 << 30));
        assert_eq!(parse("3KiB"), Ok(3072));
        assert_eq!(parse("1.5G"), Ok(3 << 29));
        assert_eq!(parse("0.25K"), Ok(256));
        assert_eq!(parse("2.0"), Ok(2));
        for not_one in ["1.5", "1.G", ".5G", "1.2.3M", "1.-5M", "1.5.", "1.+5M"] {
            assert!(parse(not_one).is_err(), "{not_one}");
        }
        assert!(parse("").is_err());
        assert!(parse("M").is_err());
        assert!(parse("12Q").is_err());
        assert!(parse("99999999999T").is_err());
        assert_eq!(show(17), "17 B");
        assert_eq!(show(1536), "1.5 KiB");
        assert_eq!(show(u64::MAX), "16.0 EiB");
    }
}
