//! From the value type of a block to that of the object, where every value must be kept exactly.
//!
//! Infinities and NaN pass between floats, -0.0 becomes the integer 0. Pure; one simple loop for
//! each pair of types, which the compiler vectorises. Used for whole tiles and for runs of entries.

use super::value::ValueType;

/// Values checked at once: a fault is looked for only in a run that has one.
const RUN: usize = 256;

/// Converts packed values. `out` holds as many values of type `to` as `stored` of type `from`.
/// The error is the place of the first value that is not exact.
pub(super) fn convert(
    from: ValueType,
    to: ValueType,
    stored: &[u8],
    out: &mut [u8],
) -> Result<(), usize> {
    if from == to {
        let n = stored.len().min(out.len());
        out[..n].copy_from_slice(&stored[..n]);
        return Ok(());
    }
    macro_rules! to {
        ($from:ty) => {
            match to {
                ValueType::U8 => run::<$from, u8>(stored, out),
                ValueType::U16 => run::<$from, u16>(stored, out),
                ValueType::U32 => run::<$from, u32>(stored, out),
                ValueType::U64 => run::<$from, u64>(stored, out),
                ValueType::I8 => run::<$from, i8>(stored, out),
                ValueType::I16 => run::<$from, i16>(stored, out),
                ValueType::I32 => run::<$from, i32>(stored, out),
                ValueType::I64 => run::<$from, i64>(stored, out),
                ValueType::F32 => run::<$from, f32>(stored, out),
                ValueType::F64 => run::<$from, f64>(stored, out),
            }
        };
    }
    match from {
        ValueType::U8 => to!(u8),
        ValueType::U16 => to!(u16),
        ValueType::U32 => to!(u32),
        ValueType::U64 => to!(u64),
        ValueType::I8 => to!(i8),
        ValueType::I16 => to!(i16),
        ValueType::I32 => to!(i32),
        ValueType::I64 => to!(i64),
        ValueType::F32 => to!(f32),
        ValueType::F64 => to!(f64),
    }
}

/// A number as it is stored: little-endian.
trait StoredNumber: Copy {
    const SIZE: usize;
    fn load(bytes: &[u8]) -> Self;
    fn store(self, bytes: &mut [u8]);
}

/// The value in another type, and whether it is the same.
trait Exact<T> {
    fn exact(self) -> (T, bool);
}

fn run<F: StoredNumber + Exact<T>, T: StoredNumber>(
    stored: &[u8],
    out: &mut [u8],
) -> Result<(), usize> {
    let runs = stored.chunks(RUN * F::SIZE);
    for (number, (from, to)) in runs.zip(out.chunks_mut(RUN * T::SIZE)).enumerate() {
        let mut all = true;
        for (from, to) in from.chunks_exact(F::SIZE).zip(to.chunks_exact_mut(T::SIZE)) {
            let (value, same) = F::load(from).exact();
            value.store(to);
            all &= same;
        }
        if !all {
            let exact = |from: &[u8]| Exact::<T>::exact(F::load(from)).1;
            let bad = from.chunks_exact(F::SIZE).position(|from| !exact(from));
            return Err(number * RUN + bad.unwrap_or(0));
        }
    }
    Ok(())
}

macro_rules! number {
    ($($t:ty)*) => {$(
        impl StoredNumber for $t {
            const SIZE: usize = size_of::<$t>();

            #[inline(always)]
            fn load(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<$t>()];
                own.copy_from_slice(bytes);
                <$t>::from_le_bytes(own)
            }

            #[inline(always)]
            fn store(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}
number!(u8 u16 u32 u64 i8 i16 i32 i64 f32 f64);

macro_rules! between_integers {
    ($from:ty => $($to:ty)*) => {$(
        impl Exact<$to> for $from {
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn exact(self) -> ($to, bool) {
                let value = self as $to;
                (value, value as $from == self && (value < 0) == (self < 0))
            }
        }
    )*};
}

// Casts to integers saturate, so that 2^64 comes back as if it were the greatest u64: what the
// integers do not reach is told by the power of two just above them.
macro_rules! with_floats {
    ($int:ty, $above:expr => $($float:ty)*) => {$(
        impl Exact<$float> for $int {
            #[inline(always)]
            fn exact(self) -> ($float, bool) {
                let value = self as $float;
                (value, value as $int == self && value < $above)
            }
        }

        impl Exact<$int> for $float {
            #[inline(always)]
            fn exact(self) -> ($int, bool) {
                let value = self as $int;
                (value, value as $float == self && self < $above)
            }
        }
    )*};
}

macro_rules! integers {
    ($($int:ty, $above:expr;)*) => {$(
        between_integers!($int => u8 u16 u32 u64 i8 i16 i32 i64);
        with_floats!($int, $above => f32 f64);
    )*};
}
integers! {
    u8, 256.0;
    u16, 65536.0;
    u32, 4294967296.0;
    u64, 18446744073709551616.0;
    i8, 128.0;
    i16, 32768.0;
    i32, 2147483648.0;
    i64, 9223372036854775808.0;
}

impl Exact<f64> for f32 {
    #[inline(always)]
    fn exact(self) -> (f64, bool) {
        (f64::from(self), true)
    }
}

impl Exact<f32> for f64 {
    #[inline(always)]
    fn exact(self) -> (f32, bool) {
        let value = self as f32;
        (value, f64::from(value) == self || self.is_nan())
    }
}

macro_rules! same {
    ($($t:ty)*) => {$(
        impl Exact<$t> for $t {
            #[inline(always)]
            fn exact(self) -> ($t, bool) {
                (self, true)
            }
        }
    )*};
}
same!(f32 f64);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [ValueType; 10] = [
        ValueType::U8,
        ValueType::U16,
        ValueType::U32,
        ValueType::U64,
        ValueType::I8,
        ValueType::I16,
        ValueType::I32,
        ValueType::I64,
        ValueType::F32,
        ValueType::F64,
    ];

    /// What a value is: an integer, or the bits of a float that is none.
    #[derive(Debug, PartialEq, Clone, Copy)]
    enum Plain {
        Integer(i128),
        Other(f64),
        Nan,
    }

    fn plain(value: ValueType, raw: &[u8]) -> Plain {
        let mut wide = [0; 8];
        wide[..raw.len()].copy_from_slice(raw);
        let bits = u64::from_le_bytes(wide);
        let unused = 64 - 8 * raw.len() as u32;
        match value {
            ValueType::F32 => float(f64::from(f32::from_bits(bits as u32))),
            ValueType::F64 => float(f64::from_bits(bits)),
            ValueType::I8 | ValueType::I16 | ValueType::I32 | ValueType::I64 => {
                Plain::Integer(i128::from((bits << unused) as i64 >> unused))
            }
            _ => Plain::Integer(i128::from(bits)),
        }
    }

    fn float(value: f64) -> Plain {
        match value {
            v if v.is_nan() => Plain::Nan,
            v if v.is_finite() && v.fract() == 0.0 && v.abs() < 2f64.powi(100) => {
                Plain::Integer(v as i128)
            }
            v => Plain::Other(v),
        }
    }

    fn is_float(value: ValueType) -> bool {
        matches!(value, ValueType::F32 | ValueType::F64)
    }

    /// Whether there is a value of type `to` that is the same, found by other means.
    fn fits(to: ValueType, value: Plain) -> bool {
        let integer = |least: i128, most: i128| matches!(value, Plain::Integer(v) if (least..=most).contains(&v));
        // The odd part of an integer must fit the significand.
        let significand = |bits: u32| match value {
            Plain::Integer(v) => {
                let v = v.unsigned_abs();
                v == 0 || 128 - v.leading_zeros() - v.trailing_zeros() <= bits
            }
            Plain::Other(v) => bits == 53 || f64::from(v as f32) == v,
            Plain::Nan => true,
        };
        match to {
            ValueType::U8 => integer(0, 255),
            ValueType::U16 => integer(0, 65535),
            ValueType::U32 => integer(0, u32::MAX.into()),
            ValueType::U64 => integer(0, u64::MAX.into()),
            ValueType::I8 => integer(-128, 127),
            ValueType::I16 => integer(-32768, 32767),
            ValueType::I32 => integer(i32::MIN.into(), i32::MAX.into()),
            ValueType::I64 => integer(i64::MIN.into(), i64::MAX.into()),
            ValueType::F32 => significand(24),
            ValueType::F64 => significand(53),
        }
    }

    fn check(from: ValueType, to: ValueType, bits: u64) {
        let raw = &bits.to_le_bytes()[..from.size()];
        let mut out = [0; 8];
        let out = &mut out[..to.size()];
        let value = plain(from, raw);
        let converted = convert(from, to, raw, out);
        assert_eq!(
            converted.is_ok(),
            from == to || fits(to, value),
            "{from:?} {to:?} {value:?}"
        );
        if converted.is_ok() {
            assert_eq!(plain(to, out), value, "{from:?} to {to:?}");
        }
    }

    proptest! {
        #[test]
        fn a_value_is_kept_or_refused(bits in any::<u64>(), shift in 0u32..64, from in 0usize..10, to in 0usize..10) {
            let (from, to) = (ALL[from], ALL[to]);
            let edge = (1u64 << shift).wrapping_add(bits % 5).wrapping_sub(2);
            for bits in [bits, bits >> shift, edge, edge.wrapping_neg()] {
                check(from, to, bits);
                if from == ValueType::F32 {
                    check(from, to, u64::from((bits as i64 as f32).to_bits()));
                } else if is_float(from) {
                    check(from, to, (bits as f64).to_bits());
                    check(from, to, (bits as i64 as f64).to_bits());
                    check(from, to, f64::from(f32::from_bits(bits as u32)).to_bits());
                }
            }
        }
    }

    #[test]
    fn the_edges_of_integers_and_floats() {
        for from in ALL {
            for to in ALL {
                let mut values = vec![0, 1, u64::MAX, 1 << 63, (1 << 53) + 1, 1 << 24];
                if is_float(from) {
                    let floats = [
                        -0.0,
                        0.5,
                        f64::NAN,
                        f64::INFINITY,
                        2f64.powi(63),
                        2f64.powi(64),
                        0.1,
                    ];
                    let bits = |v: &f64| match from {
                        ValueType::F32 => u64::from((*v as f32).to_bits()),
                        _ => v.to_bits(),
                    };
                    values.extend(floats.iter().map(bits));
                }
                values.into_iter().for_each(|bits| check(from, to, bits));
            }
        }
    }

    #[test]
    fn the_first_inexact_value_is_told() {
        let mut values = vec![7u16; 1000];
        values[700] = 256;
        let stored: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let mut out = vec![0; 1000];
        assert_eq!(
            convert(ValueType::U16, ValueType::U8, &stored, &mut out),
            Err(700)
        );
    }
}
