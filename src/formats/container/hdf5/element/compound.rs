//! Compounds: members packed in the order in which they lie, spelled as the list that NumPy takes.
//!
//! A compound of two equal floats named `r` and `i` is how complex numbers are stored before HDF5
//! 2.0. Used by [`super`].

use std::collections::HashSet;
use std::fmt::Write;

use super::cast::{Cast, MemberPlace};
use super::{ElementPart, MEMBERS_MOST, MemberCount, SIZE_MOST, float, type_name};
use crate::container::names;
use crate::container::stored::StoredType;

/// Name, offset and type.
type CompoundMember = (String, u64, StoredType);

/// Longest spelling of a type, in bytes: it is in every listing of the container.
const DESCR_MOST: usize = 1 << 20;

/// Largest compound that has gaps or members to convert, in bytes: they are converted one by one.
const CONVERTED_MOST: u64 = 16 << 20;

impl MemberCount {
    pub(super) fn compound(
        &mut self,
        size: u64,
        members: &[CompoundMember],
        depth: u32,
    ) -> Result<ElementPart, String> {
        if let Some(complex) = complex(size, members) {
            return complex;
        }
        self.members = self.members.saturating_add(members.len());
        if members.is_empty() || size == 0 || size > SIZE_MOST || self.members > MEMBERS_MOST {
            let members = members.len();
            return Err(format!("a compound of {members} members in {size} bytes"));
        }
        let mut sorted: Vec<&CompoundMember> = members.iter().collect();
        sorted.sort_by_key(|(_, offset, _)| *offset);
        let mut packing = Packing::default();
        for member in sorted {
            let part = self.member(member, depth)?;
            packing.add(member, part, size)?;
        }
        packing.finish(size)
    }

    fn member(
        &mut self,
        (name, _, element): &CompoundMember,
        depth: u32,
    ) -> Result<ElementPart, String> {
        let reason = match element {
            StoredType::Text { size: None, .. } => "variable-length strings".to_owned(),
            StoredType::Array { .. } | StoredType::Compound { .. } => {
                return self.part(element, depth + 1);
            }
            element if element.is_plain() => return self.part(element, depth + 1),
            other => type_name(other),
        };
        let name = names::unescaped(name);
        let name = String::from_utf8_lossy(&name);
        Err(format!("a compound with {reason} in member '{name}'"))
    }
}

/// Members put behind each other.
#[derive(Default)]
struct Packing<'a> {
    descr: String,
    names: HashSet<&'a str>,
    places: Vec<MemberPlace>,
    /// Where the last member ends, as stored and as shown.
    stored: u64,
    shown: u64,
}

impl<'a> Packing<'a> {
    /// Adds the next member of a compound of `size` bytes.
    fn add(
        &mut self,
        (name, offset, _): &'a CompoundMember,
        part: ElementPart,
        size: u64,
    ) -> Result<(), String> {
        let stored_name = names::unescaped(name);
        let shown_name = || String::from_utf8_lossy(&stored_name);
        let end = offset.checked_add(part.stored).filter(|end| *end <= size);
        let Some(end) = end else {
            return Err(format!(
                "a compound whose member '{}' lies outside of it",
                shown_name()
            ));
        };
        if *offset < self.stored {
            return Err(format!(
                "a compound whose member '{}' overlaps another",
                shown_name()
            ));
        }
        if !self.names.insert(name) {
            return Err(format!("a compound with two members '{}'", shown_name()));
        }
        self.describe(&stored_name, &part)?;
        let from = *offset as usize..end as usize;
        let shown = self.shown + part.shown;
        let to = self.shown as usize..shown as usize;
        self.places.push(MemberPlace {
            from,
            to,
            cast: part.cast,
        });
        (self.stored, self.shown) = (end, shown);
        Ok(())
    }

    fn describe(&mut self, name: &[u8], part: &ElementPart) -> Result<(), String> {
        self.descr
            .push_str(if self.descr.is_empty() { "[(" } else { ", (" });
        push_literal(&mut self.descr, name);
        match part.descr.starts_with('[') {
            true => self.descr.extend([", ", &part.descr]),
            false => self.descr.extend([", '", &part.descr, "'"]),
        }
        match &part.dims[..] {
            [] => {}
            [one] => self.descr.push_str(&format!(", ({one},)")),
            all => {
                let all: Vec<String> = all.iter().map(u64::to_string).collect();
                self.descr.push_str(&format!(", ({})", all.join(", ")));
            }
        }
        self.descr.push(')');
        if self.descr.len() > DESCR_MOST {
            return Err("a compound of too many members".into());
        }
        Ok(())
    }

    fn finish(mut self, size: u64) -> Result<ElementPart, String> {
        self.descr.push(']');
        let same = self.shown == size && self.places.iter().all(|place| place.cast.is_same());
        if !same && size > CONVERTED_MOST {
            return Err(format!("a compound of {size} bytes that is not packed"));
        }
        let cast = match same {
            true => Cast::same(),
            false => Cast::members(size as usize, self.shown as usize, self.places),
        };
        Ok(ElementPart {
            descr: self.descr,
            dims: Vec::new(),
            stored: size,
            shown: self.shown,
            cast,
        })
    }
}

/// A complex number, if the members make up one that NumPy has.
fn complex(size: u64, members: &[CompoundMember]) -> Option<Result<ElementPart, String>> {
    let [real, imaginary] = members else {
        return None;
    };
    let (StoredType::Float(float), StoredType::Float(other)) = (&real.2, &imaginary.2) else {
        return None;
    };
    let named = matches!((&*real.0, &*imaginary.0), ("r", "i") | ("real", "imag"));
    let lie = real.1 == 0 && imaginary.1 == float.size;
    let fits = float == other && float.size.checked_mul(2) == Some(size);
    let part = (named && lie && fits).then(|| float::complex(float))?;
    part.is_ok_and(|part| part.descr.starts_with("<c"))
        .then(|| float::complex(float))
}

/// Appends a name as a string literal of Python, in ASCII. Bytes that are not UTF-8 become the lone
/// surrogates that Python itself reads them as.
fn push_literal(out: &mut String, name: &[u8]) {
    out.push('\'');
    for part in name.utf8_chunks() {
        for c in part.valid().chars() {
            push_char(out, c);
        }
        for byte in part.invalid() {
            let _ = write!(out, "\\udc{byte:02x}");
        }
    }
    out.push('\'');
}

fn push_char(out: &mut String, c: char) {
    // Writing to a string does not fail.
    let _ = match (c, u32::from(c)) {
        ('\'' | '\\', _) => write!(out, "\\{c}"),
        (' '..='~', _) => write!(out, "{c}"),
        (_, code @ ..=0xff) => write!(out, "\\x{code:02x}"),
        (_, code @ ..=0xffff) => write!(out, "\\u{code:04x}"),
        (_, code) => write!(out, "\\U{code:08x}"),
    };
}
