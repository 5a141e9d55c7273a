//! What the bytes of an element are: NumPy's types, and the names that enumerations give to
//! numbers.
//!
//! What is not understood is [`ElementType::Raw`], so that every array can be looked at. Sizes come
//! from files: they are checked, and nothing is allocated by them. Pure. Used by all that shows
//! values.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::array::dtype::Dtype;
use crate::array::dtype::literal::Literal;
use crate::container::stored::StoredType;

/// Parts of all levels of a type that are told apart.
const PARTS_MOST: usize = 4096;

/// The names of an enumeration's numbers.
pub type NumberNames = Arc<BTreeMap<i128, String>>;

/// The type of an element.
#[derive(Debug, Clone, PartialEq)]
pub enum ElementType {
    /// One byte.
    Bool,
    /// Of 1, 2, 4 or 8 bytes; `names`: an enumeration.
    Integer {
        size: usize,
        signed: bool,
        big: bool,
        names: Option<NumberNames>,
    },
    /// Of 2, 4 or 8 bytes.
    Float { size: usize, big: bool },
    /// Two floats of `size` bytes each.
    Complex { size: usize, big: bool },
    /// A string of bytes, padded with NULs.
    Bytes { size: usize },
    /// A string of code points, padded with NULs.
    Characters { count: usize, big: bool },
    /// A date, or a time span, counted in `unit`.
    Date {
        unit: String,
        is_span: bool,
        big: bool,
    },
    /// Bytes of which no more is known.
    Raw { size: usize },
    /// A compound.
    Structure(Vec<StructurePart>),
    /// So many of the same.
    Repeated {
        count: usize,
        base: Box<ElementType>,
    },
}

/// A part of a compound.
#[derive(Debug, Clone, PartialEq)]
pub struct StructurePart {
    pub name: String,
    pub offset: usize,
    pub element: ElementType,
}

/// Where the types without data of a file are looked up that others are of.
pub type CommittedTypes<'a> = &'a dyn Fn(&str) -> Option<StoredType>;

impl ElementType {
    /// Text has elements of no size: `None`.
    pub fn of(dtype: &Dtype) -> Option<ElementType> {
        let size = usize::try_from(dtype.itemsize()?).ok()?;
        let spelled = dtype.npy_descr();
        let parsed = Literal::parse(&spelled).and_then(|literal| of_literal(&literal, &mut 0));
        let raw = ElementType::Raw { size };
        Some(parsed.filter(|parsed| parsed.size() == size).unwrap_or(raw))
    }

    /// Bytes of an element.
    pub fn size(&self) -> usize {
        match self {
            ElementType::Bool => 1,
            ElementType::Integer { size, .. } | ElementType::Float { size, .. } => *size,
            ElementType::Complex { size, .. } => 2 * size,
            ElementType::Bytes { size } | ElementType::Raw { size } => *size,
            ElementType::Characters { count, .. } => count.saturating_mul(4),
            ElementType::Date { .. } => 8,
            ElementType::Structure(parts) => parts.last().map_or(0, StructurePart::end),
            ElementType::Repeated { count, base } => count.saturating_mul(base.size()),
        }
    }

    /// Whether it is one number on a line: what figures and pictures are made of.
    pub fn is_number(&self) -> bool {
        matches!(
            self,
            ElementType::Bool | ElementType::Integer { .. } | ElementType::Float { .. }
        )
    }

    /// Whether it is text.
    pub fn is_text(&self) -> bool {
        matches!(
            self,
            ElementType::Bytes { .. } | ElementType::Characters { .. }
        )
    }

    /// Gives numbers the names that the stored type has for them.
    pub fn with_names(self, stored: &StoredType, committed: CommittedTypes<'_>) -> ElementType {
        self.named(stored, committed, 0)
    }

    fn named(self, stored: &StoredType, committed: CommittedTypes<'_>, depth: u32) -> ElementType {
        if depth > 32 {
            return self;
        }
        match (self, stored) {
            (own, StoredType::Committed { name }) => match committed(name) {
                Some(stored) => own.named(&stored, committed, depth + 1),
                None => own,
            },
            (own, StoredType::Array { base, .. }) => own.named(base, committed, depth + 1),
            (ElementType::Repeated { count, base }, _) => ElementType::Repeated {
                count,
                base: Box::new(base.named(stored, committed, depth + 1)),
            },
            (
                ElementType::Integer {
                    size, signed, big, ..
                },
                StoredType::Enumeration { members, .. },
            ) => ElementType::Integer {
                size,
                signed,
                big,
                names: Some(names_of(members)),
            },
            (ElementType::Structure(parts), StoredType::Compound { members, .. })
                if parts.len() == members.len() =>
            {
                let named = parts
                    .into_iter()
                    .zip(members)
                    .map(|(part, (_, _, stored))| StructurePart {
                        element: part.element.named(stored, committed, depth + 1),
                        ..part
                    });
                ElementType::Structure(named.collect())
            }
            (own, _) => own,
        }
    }

    /// Its parts that have a column of their own, each with its name (none, if it is not a
    /// compound) and offset.
    pub fn columns(&self) -> Vec<StructurePart> {
        let mut columns = Vec::new();
        self.add_columns("", 0, &mut columns);
        columns
    }

    fn add_columns(&self, name: &str, offset: usize, to: &mut Vec<StructurePart>) {
        let ElementType::Structure(parts) = self else {
            to.push(StructurePart {
                name: name.to_owned(),
                offset,
                element: self.clone(),
            });
            return;
        };
        // What has no name is padding.
        for part in parts.iter().filter(|part| !part.name.is_empty()) {
            let path = match name {
                "" => part.name.clone(),
                name => format!("{name}.{}", part.name),
            };
            let offset = offset.saturating_add(part.offset);
            part.element.add_columns(&path, offset, to);
        }
    }
}

impl StructurePart {
    fn end(&self) -> usize {
        self.offset.saturating_add(self.element.size())
    }
}

fn names_of(members: &[(String, serde_json::Number)]) -> NumberNames {
    let number = |number: &serde_json::Number| {
        let signed = number.as_i64().map(i128::from);
        signed.or(number.as_u64().map(i128::from))
    };
    let named = members.iter().rev();
    Arc::new(
        named
            .filter_map(|(name, value)| Some((number(value)?, name.clone())))
            .collect(),
    )
}

fn of_literal(literal: &Literal, parts: &mut usize) -> Option<ElementType> {
    match literal {
        Literal::Str(text) => of_text(text),
        Literal::List(fields) | Literal::Tuple(fields) => structure(fields, parts),
        Literal::Int(_) => None,
    }
}

fn structure(fields: &[Literal], so_far: &mut usize) -> Option<ElementType> {
    let (mut parts, mut offset) = (Vec::new(), 0usize);
    for field in fields {
        let field = field.items()?;
        *so_far += 1;
        if *so_far > PARTS_MOST {
            return None;
        }
        let name = match field.first()? {
            Literal::Str(name) => name.clone(),
            // A title and a name.
            names => match names.items()?.get(1)? {
                Literal::Str(name) => name.clone(),
                _ => return None,
            },
        };
        let mut element = of_literal(field.get(1)?, so_far)?;
        if let Some(dims) = field.get(2) {
            element = repeated(element, dims)?;
        }
        let end = offset.checked_add(element.size())?;
        // Without a name it is padding.
        if !name.is_empty() {
            parts.push(StructurePart {
                name,
                offset,
                element,
            });
        }
        offset = end;
    }
    // Padding at the end counts; what is told of its size is compared with that.
    let end = parts.last().map_or(0, StructurePart::end);
    if end < offset && !parts.is_empty() {
        parts.push(StructurePart {
            name: String::new(),
            offset: end,
            element: ElementType::Raw { size: offset - end },
        });
    }
    (!parts.is_empty()).then_some(ElementType::Structure(parts))
}

fn repeated(base: ElementType, dims: &Literal) -> Option<ElementType> {
    let count = match dims {
        Literal::Int(n) => *n,
        dims => dims
            .items()?
            .iter()
            .try_fold(1u64, |count, dim| match dim {
                Literal::Int(n) => count.checked_mul(*n),
                _ => None,
            })?,
    };
    let count = usize::try_from(count).ok()?;
    count.checked_mul(base.size())?;
    Some(ElementType::Repeated {
        count,
        base: Box::new(base),
    })
}

/// `<f4`, `|S9`, `>M8[ns]`.
fn of_text(descr: &str) -> Option<ElementType> {
    let mut chars = descr.chars();
    let big = match chars.next()? {
        '>' => true,
        '<' | '|' | '=' => false,
        _ => return None,
    };
    let kind = chars.next()?;
    let rest = chars.as_str();
    let (digits, unit) = rest.split_once('[').unwrap_or((rest, ""));
    let size: usize = digits.parse().ok()?;
    Some(match (kind, size) {
        ('b', 1) => ElementType::Bool,
        ('i' | 'u', 1 | 2 | 4 | 8) => ElementType::Integer {
            size,
            signed: kind == 'i',
            big,
            names: None,
        },
        ('f', 2 | 4 | 8) => ElementType::Float { size, big },
        ('c', 8 | 16) => ElementType::Complex {
            size: size / 2,
            big,
        },
        ('S' | 'a', _) => ElementType::Bytes { size },
        ('U', _) => ElementType::Characters { count: size, big },
        ('M' | 'm', 8) => ElementType::Date {
            unit: unit.trim_end_matches(']').to_owned(),
            is_span: kind == 'm',
            big,
        },
        ('V', _) => ElementType::Raw { size },
        _ => ElementType::Raw { size },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(descr: &str, size: u64) -> ElementType {
        ElementType::of(&Dtype::numpy(descr, size)).unwrap()
    }

    fn float(size: usize) -> ElementType {
        ElementType::Float { size, big: false }
    }

    #[test]
    fn types_are_told_apart() {
        assert_eq!(of("<f4", 4), float(4));
        assert_eq!(of(">f8", 8), ElementType::Float { size: 8, big: true });
        assert_eq!(of("|S9", 9), ElementType::Bytes { size: 9 });
        assert_eq!(of("|V16", 16), ElementType::Raw { size: 16 });
        assert_eq!(of("<f16", 16), ElementType::Raw { size: 16 });
        assert_eq!(ElementType::of(&Dtype::Text), None);
        // A size that is not that of the list.
        assert_eq!(of("[('a', '<f4')]", 5), ElementType::Raw { size: 5 });
    }

    #[test]
    fn compounds_have_a_column_for_each_part() {
        let list =
            "[('a', '<f4'), ('', '|V4'), ('b', [('c', '<f8', (2, 3)), ('d', '|b1')]), ('', '|V7')]";
        let columns = of(list, 64).columns();
        let told: Vec<(&str, usize)> = columns
            .iter()
            .map(|part| (&*part.name, part.offset))
            .collect();
        assert_eq!(told, [("a", 0), ("b.c", 8), ("b.d", 56)]);
        let repeated = ElementType::Repeated {
            count: 6,
            base: Box::new(float(8)),
        };
        assert_eq!(columns[1].element, repeated);
    }

    #[test]
    fn enumerations_have_names() {
        let members = vec![("low".into(), (-1).into()), ("high".into(), 7.into())];
        let spelled = StoredType::Enumeration {
            base: Box::new(StoredType::called("H5T_STD_I8LE")),
            members,
        };
        let committed = StoredType::Committed { name: "t".into() };
        for stored in [&spelled, &committed] {
            let named =
                of("|i1", 1).with_names(stored, &|name| (name == "t").then(|| spelled.clone()));
            let ElementType::Integer {
                names: Some(names), ..
            } = named
            else {
                panic!("{named:?}");
            };
            assert_eq!(names.get(&-1).map(String::as_str), Some("low"));
        }
        // A type that is of itself ends.
        of("|i1", 1).with_names(&committed, &|_| Some(committed.clone()));
    }
}
