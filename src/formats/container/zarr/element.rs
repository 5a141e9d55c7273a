//! Data types of arrays, of both versions, and how their elements are shown: little-endian, a
//! structure's fields behind each other.
//!
//! Pure. Used by the documents of arrays, and by [`super::fill`].

use serde_json::Value;

use super::document::{DocumentRefusal, configuration, named};
use crate::array::dtype::Dtype;
use crate::array::dtype::literal::Literal;
use crate::codec::numcodecs::{ByteTurn, NumberRun, NumberType, NumpyNumber};

/// Deepest nesting of structures.
const DEEPEST: usize = 16;

/// Longest element.
const LONGEST: usize = 1 << 30;

/// Most runs of numbers in an element: fields, and what repeated structures have of them.
const RUNS_MOST: usize = 64 << 10;

/// Longest spelling of a type: an extended attribute must hold it.
const SPELLING_MOST: usize = 32 << 10;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Bool,
    /// A number of so many bytes.
    Signed(usize),
    Unsigned(usize),
    Float(usize),
    Complex(usize),
    /// Of dates and differences, with NumPy's letter and unit.
    Time(char, String),
    /// Bytes, padded with zeros.
    Bytes(usize),
    Void(usize),
    /// Characters of four bytes.
    Unicode(usize),
    Record(Vec<RecordField>),
    /// Texts, or bytes shown as such, of variable length.
    Text,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct RecordField {
    pub(super) name: String,
    pub(super) element: ZarrElement,
    /// Elements in it, in dimensions.
    pub(super) shape: Vec<u64>,
    pub(super) count: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ZarrElement {
    pub(super) kind: Kind,
    /// As stored.
    pub(super) is_big: bool,
}

impl ZarrElement {
    /// Bytes, of one that has always the same number.
    pub(super) fn size(&self) -> usize {
        match &self.kind {
            Kind::Bool => 1,
            Kind::Signed(n) | Kind::Unsigned(n) | Kind::Float(n) | Kind::Complex(n) => *n,
            Kind::Time(..) => 8,
            Kind::Bytes(n) | Kind::Void(n) => *n,
            Kind::Unicode(n) => n * 4,
            Kind::Record(fields) => fields.iter().map(RecordField::size).sum(),
            Kind::Text => 0,
        }
    }

    /// Runs of numbers that it is made of: their bytes, whether they are stored big-endian, and how
    /// many there are. No more than [`RUNS_MOST`] in an element that was [`ZarrElement::checked`].
    fn runs(&self, big: Option<bool>, visit: &mut dyn FnMut(NumberRun)) {
        let is_big = big.unwrap_or(self.is_big);
        let run = |len, is_big, count| NumberRun { len, is_big, count };
        match &self.kind {
            Kind::Complex(n) => visit(run(n / 2, is_big, 2)),
            Kind::Unicode(n) if is_big => visit(run(4, true, *n)),
            Kind::Bool | Kind::Bytes(_) | Kind::Void(_) | Kind::Unicode(_) => {
                visit(run(self.size(), false, 1));
            }
            Kind::Record(fields) => fields.iter().for_each(|field| field.runs(big, visit)),
            _ => visit(run(self.size(), is_big, 1)),
        }
    }

    /// How many runs there are at most.
    fn count_runs(&self) -> usize {
        match &self.kind {
            Kind::Record(fields) => {
                let counts = fields.iter().map(|field| {
                    let within = field.element.count_runs();
                    match within {
                        1 => 1,
                        _ => within.saturating_mul(field.count),
                    }
                });
                counts.fold(0, usize::saturating_add)
            }
            _ => 1,
        }
    }

    /// What puts elements into little-endian order, if something has to. `big`: the order of all
    /// numbers, where it is not each one's own.
    pub(super) fn turn(&self, big: Option<bool>) -> Option<ByteTurn> {
        let mut runs = Vec::new();
        self.runs(big, &mut |run| runs.push(run));
        ByteTurn::new(runs)
    }

    /// The number that it is, if it is one.
    pub(super) fn number(&self) -> Option<NumberType> {
        let number = match self.kind {
            Kind::Bool => NumpyNumber::Bool,
            Kind::Signed(1) => NumpyNumber::I8,
            Kind::Signed(2) => NumpyNumber::I16,
            Kind::Signed(4) => NumpyNumber::I32,
            Kind::Signed(8) | Kind::Time(..) => NumpyNumber::I64,
            Kind::Unsigned(1) => NumpyNumber::U8,
            Kind::Unsigned(2) => NumpyNumber::U16,
            Kind::Unsigned(4) => NumpyNumber::U32,
            Kind::Unsigned(8) => NumpyNumber::U64,
            Kind::Float(2) => NumpyNumber::F16,
            Kind::Float(4) => NumpyNumber::F32,
            Kind::Float(8) => NumpyNumber::F64,
            _ => return None,
        };
        let is_big = self.is_big;
        Some(NumberType { number, is_big })
    }

    /// As it is shown.
    pub(super) fn dtype(&self) -> Dtype {
        match &self.kind {
            Kind::Text => Dtype::Text,
            _ => Dtype::numpy(spelled(&self.descr()), self.size() as u64),
        }
    }

    fn descr(&self) -> Literal {
        let code = match &self.kind {
            Kind::Bool => "|b1".to_owned(),
            Kind::Signed(n) => number('i', *n),
            Kind::Unsigned(n) => number('u', *n),
            Kind::Float(n) => number('f', *n),
            Kind::Complex(n) => number('c', *n),
            Kind::Time(letter, unit) => format!("<{letter}8{unit}"),
            Kind::Bytes(n) => format!("|S{n}"),
            Kind::Void(n) => format!("|V{n}"),
            Kind::Unicode(n) => format!("<U{n}"),
            Kind::Text => "|O".to_owned(),
            Kind::Record(fields) => {
                return Literal::List(fields.iter().map(RecordField::descr).collect());
            }
        };
        Literal::Str(code)
    }

    fn checked(self) -> Result<ZarrElement, DocumentRefusal> {
        match self.kind {
            Kind::Text => Ok(self),
            _ if self.size() == 0 => Err(DocumentRefusal::not_shown("elements of no bytes")),
            _ if self.size() > LONGEST || spelled(&self.descr()).len() > SPELLING_MOST => Err(
                DocumentRefusal::not_shown("elements of more than 1 GiB, or of too many fields"),
            ),
            _ if self.count_runs() > RUNS_MOST => {
                Err(DocumentRefusal::not_shown("elements of too many numbers"))
            }
            _ => Ok(self),
        }
    }
}

impl RecordField {
    fn size(&self) -> usize {
        self.element.size().saturating_mul(self.count)
    }

    fn runs(&self, big: Option<bool>, visit: &mut dyn FnMut(NumberRun)) {
        let (mut first, mut runs) = (None, 0);
        self.element.runs(big, &mut |run| {
            first = Some(run);
            runs += 1;
        });
        match first.filter(|_| runs == 1) {
            Some(run) => visit(NumberRun {
                count: run.count.saturating_mul(self.count),
                ..run
            }),
            None => (0..self.count).for_each(|_| self.element.runs(big, visit)),
        }
    }

    fn descr(&self) -> Literal {
        let mut parts = vec![Literal::Str(self.name.clone()), self.element.descr()];
        if !self.shape.is_empty() {
            let shape = self.shape.iter().map(|len| Literal::Int(*len)).collect();
            parts.push(Literal::Tuple(shape));
        }
        Literal::Tuple(parts)
    }
}

fn number(letter: char, size: usize) -> String {
    let order = if size > 1 { '<' } else { '|' };
    format!("{order}{letter}{size}")
}

fn spelled(descr: &Literal) -> String {
    match descr {
        Literal::Str(code) => code.clone(),
        list => list.to_string(),
    }
}

/// A type of version 2: as NumPy spells it, or a list of fields.
pub(super) fn of_version_2(dtype: &Value) -> Result<ZarrElement, DocumentRefusal> {
    within_version_2(dtype, DEEPEST)?.checked()
}

fn within_version_2(dtype: &Value, depth: usize) -> Result<ZarrElement, DocumentRefusal> {
    let unknown = || DocumentRefusal::not_shown(format!("the data type {dtype}"));
    match dtype {
        Value::String(code) => of_code(code).ok_or_else(unknown),
        Value::Array(fields) if !fields.is_empty() => {
            let depth = depth.checked_sub(1).ok_or_else(unknown)?;
            let fields = fields.iter().map(|field| field_of_version_2(field, depth));
            record(fields.collect::<Result<_, _>>()?)
        }
        _ => Err(DocumentRefusal::fault("the data type is none").found(dtype)),
    }
}

fn field_of_version_2(field: &Value, depth: usize) -> Result<RecordField, DocumentRefusal> {
    let broken = || DocumentRefusal::fault("a field is no name and type").found(field);
    let parts = field.as_array().map(Vec::as_slice).unwrap_or_default();
    let (name, dtype, shape) = match parts {
        [name, dtype] => (name, dtype, &Value::Null),
        [name, dtype, shape] => (name, dtype, shape),
        _ => return Err(broken()),
    };
    // A title may stand before the name.
    let name = match name {
        Value::Array(both) => both.last().and_then(Value::as_str),
        name => name.as_str(),
    };
    let shape: Vec<u64> = match shape {
        Value::Null => Vec::new(),
        Value::Number(len) => vec![len.as_u64().ok_or_else(broken)?],
        shape => {
            let lens = shape
                .as_array()
                .ok_or_else(broken)?
                .iter()
                .map(Value::as_u64);
            lens.collect::<Option<_>>().ok_or_else(broken)?
        }
    };
    let count = shape.iter().try_fold(1u64, |n, len| n.checked_mul(*len));
    let count = count
        .and_then(|n| usize::try_from(n).ok())
        .filter(|n| *n <= 1 << 20);
    Ok(RecordField {
        name: name.ok_or_else(broken)?.to_owned(),
        element: within_version_2(dtype, depth)?,
        count: count.ok_or_else(|| DocumentRefusal::not_shown("a field of very many elements"))?,
        shape,
    })
}

fn record(fields: Vec<RecordField>) -> Result<ZarrElement, DocumentRefusal> {
    let total = fields
        .iter()
        .try_fold(0usize, |n, field| n.checked_add(field.size()));
    if fields.iter().any(|field| field.element.kind == Kind::Text) {
        return Err(DocumentRefusal::not_shown(
            "a structure with texts of variable length",
        ));
    }
    match total {
        Some(total) if total <= LONGEST => Ok(ZarrElement {
            kind: Kind::Record(fields),
            is_big: false,
        }),
        _ => Err(DocumentRefusal::not_shown("elements of more than 1 GiB")),
    }
}

/// `<f8`, `|S3`, `>M8[10us]`.
fn of_code(code: &str) -> Option<ZarrElement> {
    let mut chars = code.chars();
    let order = chars
        .next()
        .filter(|c| matches!(c, '<' | '>' | '|' | '='))?;
    let letter = chars.next()?;
    let (digits, unit) = match chars.as_str().split_once('[') {
        Some((digits, unit)) => (digits, Some(unit.strip_suffix(']')?)),
        None => (chars.as_str(), None),
    };
    let size = |sizes: &[usize]| {
        let size = digits.parse().ok()?;
        sizes.contains(&size).then_some(size)
    };
    let length = || digits.parse().ok().filter(|n: &usize| *n <= LONGEST / 4);
    let kind = match letter {
        'b' => size(&[1]).map(|_| Kind::Bool)?,
        'i' => Kind::Signed(size(&[1, 2, 4, 8])?),
        'u' => Kind::Unsigned(size(&[1, 2, 4, 8])?),
        'f' => Kind::Float(size(&[2, 4, 8])?),
        'c' => Kind::Complex(size(&[8, 16])?),
        'M' | 'm' => {
            size(&[8])?;
            let unit = unit.filter(|unit| *unit != "generic");
            let is_unit = |unit: &str| unit.bytes().all(|b| b.is_ascii_alphanumeric());
            if !unit.is_none_or(is_unit) {
                return None;
            }
            Kind::Time(
                letter,
                unit.map_or(String::new(), |unit| format!("[{unit}]")),
            )
        }
        'S' | 'a' => Kind::Bytes(length()?),
        'V' => Kind::Void(length()?),
        'U' => Kind::Unicode(length()?),
        'O' => Kind::Text,
        _ => return None,
    };
    if unit.is_some() && !matches!(kind, Kind::Time(..)) {
        return None;
    }
    let is_big = order == '>';
    Some(ZarrElement { kind, is_big })
}

/// A type of version 3: a name, or an object of a name and its configuration.
pub(super) fn of_version_3(data_type: &Value) -> Result<ZarrElement, DocumentRefusal> {
    within_version_3(data_type, DEEPEST)?.checked()
}

fn within_version_3(data_type: &Value, depth: usize) -> Result<ZarrElement, DocumentRefusal> {
    let (name, configured) = named(data_type)
        .ok_or_else(|| DocumentRefusal::fault("the data type has no name").found(data_type))?;
    let unknown = || DocumentRefusal::not_shown(format!("the data type {name}"));
    let kind = match name {
        "bool" => Kind::Bool,
        "int8" => Kind::Signed(1),
        "int16" => Kind::Signed(2),
        "int32" => Kind::Signed(4),
        "int64" => Kind::Signed(8),
        "uint8" => Kind::Unsigned(1),
        "uint16" => Kind::Unsigned(2),
        "uint32" => Kind::Unsigned(4),
        "uint64" => Kind::Unsigned(8),
        "float16" => Kind::Float(2),
        "float32" => Kind::Float(4),
        "float64" => Kind::Float(8),
        "complex64" | "complex_float32" => Kind::Complex(8),
        "complex128" | "complex_float64" => Kind::Complex(16),
        "string" | "variable_length_bytes" | "bytes" => Kind::Text,
        "numpy.datetime64" | "numpy.timedelta64" => {
            let unit = configuration(configured, "unit").and_then(Value::as_str);
            let factor = match configuration(configured, "scale_factor") {
                None => 1,
                Some(factor) => factor.as_u64().ok_or_else(unknown)?,
            };
            let is_unit = |unit: &&str| unit.bytes().all(|b| b.is_ascii_alphabetic());
            let unit = match (unit.filter(is_unit), factor) {
                (None, _) => return Err(unknown()),
                (Some("generic"), _) => String::new(),
                (Some(unit), 1) => format!("[{unit}]"),
                (Some(unit), factor) => format!("[{factor}{unit}]"),
            };
            let letter = if name == "numpy.datetime64" { 'M' } else { 'm' };
            Kind::Time(letter, unit)
        }
        "null_terminated_bytes" | "raw_bytes" | "fixed_length_utf32" => {
            let len = configuration(configured, "length_bytes").and_then(Value::as_u64);
            let len = len.and_then(|len| usize::try_from(len).ok());
            let len = len.filter(|len| *len <= LONGEST);
            let missing = || DocumentRefusal::fault("the data type has no length").found(data_type);
            match (name, len.ok_or_else(missing)?) {
                ("null_terminated_bytes", len) => Kind::Bytes(len),
                ("raw_bytes", len) => Kind::Void(len),
                (_, len) if len % 4 == 0 => Kind::Unicode(len / 4),
                _ => return Err(missing()),
            }
        }
        "structured" | "struct" => {
            let depth = depth.checked_sub(1).ok_or_else(unknown)?;
            return record(fields_of_version_3(configured, depth)?);
        }
        name => match raw_bits(name) {
            Some(bits) if bits % 8 == 0 => Kind::Void(bits / 8),
            _ => return Err(unknown()),
        },
    };
    let is_big = false;
    Ok(ZarrElement { kind, is_big })
}

/// `r24`: so many bits without a meaning.
fn raw_bits(name: &str) -> Option<usize> {
    let bits = name.strip_prefix('r')?;
    let are_digits = bits.bytes().all(|b| b.is_ascii_digit());
    are_digits
        .then(|| bits.parse().ok())
        .flatten()
        .filter(|bits| bits / 8 <= LONGEST)
}

/// Pairs of a name and a type, or objects of both.
fn fields_of_version_3(
    configured: &Value,
    depth: usize,
) -> Result<Vec<RecordField>, DocumentRefusal> {
    let broken = || DocumentRefusal::fault("the structure has no fields");
    let fields = configuration(configured, "fields").and_then(Value::as_array);
    let fields = fields
        .filter(|fields| !fields.is_empty())
        .ok_or_else(broken)?;
    let field = |field: &Value| {
        let (name, data_type) = match field {
            Value::Array(pair) => (pair.first(), pair.get(1)),
            object => (object.get("name"), object.get("data_type")),
        };
        Ok(RecordField {
            name: name.and_then(Value::as_str).ok_or_else(broken)?.to_owned(),
            element: within_version_3(data_type.ok_or_else(broken)?, depth)?,
            shape: Vec::new(),
            count: 1,
        })
    };
    fields.iter().map(field).collect()
}
