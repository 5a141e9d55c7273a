//! Numbers as they are stored, and what becomes of one that is converted, as NumPy does it.

use half::f16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumpyNumber {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F16,
    F32,
    F64,
}

/// A number and its byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberType {
    pub number: NumpyNumber,
    pub is_big: bool,
}

/// The value of one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scalar {
    Int(i128),
    Float(f64),
}

impl NumpyNumber {
    pub fn size(self) -> usize {
        match self {
            NumpyNumber::Bool | NumpyNumber::I8 | NumpyNumber::U8 => 1,
            NumpyNumber::I16 | NumpyNumber::U16 | NumpyNumber::F16 => 2,
            NumpyNumber::I32 | NumpyNumber::U32 | NumpyNumber::F32 => 4,
            NumpyNumber::I64 | NumpyNumber::U64 | NumpyNumber::F64 => 8,
        }
    }

    pub(super) fn is_float(self) -> bool {
        matches!(self, NumpyNumber::F16 | NumpyNumber::F32 | NumpyNumber::F64)
    }

    /// A result of arithmetic, as far as this type holds it.
    pub(super) fn round(self, value: f64) -> f64 {
        match self {
            NumpyNumber::F16 => f16::from_f64(value).to_f64(),
            NumpyNumber::F32 => f64::from(value as f32),
            _ => value,
        }
    }
}

impl NumberType {
    /// The type that NumPy spells so: `<i4`, `>f8`, `|u1`, or `int32`.
    pub fn of_descr(descr: &str) -> Option<NumberType> {
        let (is_big, code) = match descr.split_at_checked(1)? {
            (">", code) => (true, code),
            ("<" | "|" | "=", code) => (false, code),
            _ => (false, descr),
        };
        let number = match code {
            "b1" | "?" | "bool" => NumpyNumber::Bool,
            "i1" | "int8" => NumpyNumber::I8,
            "i2" | "int16" => NumpyNumber::I16,
            "i4" | "int32" => NumpyNumber::I32,
            "i8" | "int64" => NumpyNumber::I64,
            "u1" | "uint8" => NumpyNumber::U8,
            "u2" | "uint16" => NumpyNumber::U16,
            "u4" | "uint32" => NumpyNumber::U32,
            "u8" | "uint64" => NumpyNumber::U64,
            "f2" | "float16" => NumpyNumber::F16,
            "f4" | "float32" => NumpyNumber::F32,
            "f8" | "float64" => NumpyNumber::F64,
            _ => return None,
        };
        Some(NumberType { number, is_big })
    }

    pub fn size(self) -> usize {
        self.number.size()
    }

    /// The value of stored bytes, of which there are as many as the type has.
    pub(super) fn read(self, stored: &[u8]) -> Scalar {
        let mut bytes = [0; 8];
        let size = self.size().min(stored.len());
        bytes[..size].copy_from_slice(&stored[..size]);
        if self.is_big {
            bytes[..size].reverse();
        }
        let [a, b, c, d, ..] = bytes;
        match self.number {
            NumpyNumber::Bool | NumpyNumber::U8 => Scalar::Int(a.into()),
            NumpyNumber::I8 => Scalar::Int(i8::from_le_bytes([a]).into()),
            NumpyNumber::I16 => Scalar::Int(i16::from_le_bytes([a, b]).into()),
            NumpyNumber::I32 => Scalar::Int(i32::from_le_bytes([a, b, c, d]).into()),
            NumpyNumber::I64 => Scalar::Int(i64::from_le_bytes(bytes).into()),
            NumpyNumber::U16 => Scalar::Int(u16::from_le_bytes([a, b]).into()),
            NumpyNumber::U32 => Scalar::Int(u32::from_le_bytes([a, b, c, d]).into()),
            NumpyNumber::U64 => Scalar::Int(u64::from_le_bytes(bytes).into()),
            NumpyNumber::F16 => Scalar::Float(f16::from_le_bytes([a, b]).to_f64()),
            NumpyNumber::F32 => Scalar::Float(f32::from_le_bytes([a, b, c, d]).into()),
            NumpyNumber::F64 => Scalar::Float(f64::from_le_bytes(bytes)),
        }
    }

    /// Stores a value, converted if this is another type.
    pub(super) fn write(self, value: Scalar, out: &mut [u8]) {
        let bytes = match self.number {
            NumpyNumber::Bool => u64::from(value != Scalar::Int(0) && value != Scalar::Float(0.0)),
            NumpyNumber::F16 => f16::from_f64(value.float()).to_bits().into(),
            NumpyNumber::F32 => value.single().to_bits().into(),
            NumpyNumber::F64 => value.float().to_bits(),
            NumpyNumber::U64 => value.int() as u64,
            _ => value.int() as i64 as u64,
        };
        let mut bytes = bytes.to_le_bytes();
        let size = self.size().min(out.len());
        if self.is_big {
            bytes[..size].reverse();
        }
        out[..size].copy_from_slice(&bytes[..size]);
    }
}

impl Scalar {
    pub(super) fn float(self) -> f64 {
        match self {
            Scalar::Int(n) => n as f64,
            Scalar::Float(x) => x,
        }
    }

    fn single(self) -> f32 {
        match self {
            Scalar::Int(n) => n as f32,
            Scalar::Float(x) => x as f32,
        }
    }

    pub(super) fn int(self) -> i128 {
        match self {
            Scalar::Int(n) => n,
            // What is no number, or lies outside, is the least one, as processors have it.
            Scalar::Float(x) if (-9.3e18..1.9e19).contains(&x) => x as i128,
            Scalar::Float(_) => i64::MIN.into(),
        }
    }
}

/// A number as a float16 is stored.
pub fn half(value: f64) -> [u8; 2] {
    match value.is_nan() {
        true => f16::NAN.to_le_bytes(),
        false => f16::from_f64(value).to_le_bytes(),
    }
}
