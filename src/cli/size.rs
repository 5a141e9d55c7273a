//! Sizes for people: `64M` in, `1.5 MiB` out.

/// Bytes, or a number with K, M, G or T (powers of 1024; `KiB`, `MB` and the like are taken too).
pub(super) fn parse(text: &str) -> Result<u64, String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
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
    let number: u64 = number
        .parse()
        .map_err(|_| format!("'{text}' is not a size: expected a number first"))?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("'{text}' is too large"))
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
        assert!(parse("").is_err());
        assert!(parse("M").is_err());
        assert!(parse("12Q").is_err());
        assert!(parse("99999999999T").is_err());
        assert_eq!(show(17), "17 B");
        assert_eq!(show(1536), "1.5 KiB");
        assert_eq!(show(u64::MAX), "16.0 EiB");
    }
}
