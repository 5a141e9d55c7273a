//! Numbers as they are stored, and what becomes of one that is converted, as NumPy does it.

use half::f16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
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
    pub number: Number,
    pub is_big: bool,
}

/// The value of one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scalar {
    Int(i128),
    Float(f64),
}

impl Number {
    pub fn size(self) -> usize {
        match self {
            Number::Bool | Number::I8 | Number::U8 => 1,
            Number::I16 | Number::U16 | Number::F16 => 2,
            Number::I32 | Number::U32 | Number::F32 => 4,
            Number::I64 | Number::U64 | Number::F64 => 8,
        }
    }

    pub(super) fn is_float(self) -> bool {
        matches!(self, Number::F16 | Number::F32 | Number::F64)
    }

    /// A result of arithmetic, as far as this type holds it.
    pub(super) fn round(self, value: f64) -> f64 {
        match self {
            Number::F16 => f16::from_f64(value).to_f64(),
            Number::F32 => f64::from(value as f32),
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
            "b1" | "?" | "bool" => Number::Bool,
            "i1" | "int8" => Number::I8,
            "i2" | "int16" => Number::I16,
            "i4" | "int32" => Number::I32,
            "i8" | "int64" => Number::I64,
            "u1" | "uint8" => Number::U8,
            "u2" | "uint16" => Number::U16,
            "u4" | "uint32" => Number::U32,
            "u8" | "uint64" => Number::U64,
            "f2" | "float16" => Number::F16,
            "f4" | "float32" => Number::F32,
            "f8" | "float64" => Number::F64,
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
            Number::Bool | Number::U8 => Scalar::Int(a.into()),
            Number::I8 => Scalar::Int(i8::from_le_bytes([a]).into()),
            Number::I16 => Scalar::Int(i16::from_le_bytes([a, b]).into()),
            Number::I32 => Scalar::Int(i32::from_le_bytes([a, b, c, d]).into()),
            Number::I64 => Scalar::Int(i64::from_le_bytes(bytes).into()),
            Number::U16 => Scalar::Int(u16::from_le_bytes([a, b]).into()),
            Number::U32 => Scalar::Int(u32::from_le_bytes([a, b, c, d]).into()),
            Number::U64 => Scalar::Int(u64::from_le_bytes(bytes).into()),
            Number::F16 => Scalar::Float(f16::from_le_bytes([a, b]).to_f64()),
            Number::F32 => Scalar::Float(f32::from_le_bytes([a, b, c, d]).into()),
            Number::F64 => Scalar::Float(f64::from_le_bytes(bytes)),
        }
    }

    /// Stores a value, converted if this is another type.
    pub(super) fn write(self, value: Scalar, out: &mut [u8]) {
        let bytes = match self.number {
            Number::Bool => u64::from(value != Scalar::Int(0) && value != Scalar::Float(0.0)),
            Number::F16 => f16::from_f64(value.float()).to_bits().into(),
            Number::F32 => value.single().to_bits().into(),
            Number::F64 => value.float().to_bits(),
            Number::U64 => value.int() as u64,
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
            Scalar::Float(x) if x >= -9.3e18 && x < 1.9e19 => x as i128,
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
