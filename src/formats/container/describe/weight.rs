//! How much memory an opened container and its `arrays.json` take, and a JSON text as a value.

use std::sync::Arc;

use serde_json::Value;

use crate::container::{Attributes, Container};

/// Most memory that a JSON text takes as a value, and while it becomes one.
pub(crate) fn value_room(text: &[u8]) -> u64 {
    let room = text.iter().map(|byte| match byte {
        b'[' | b'{' => FIRST_VALUES,
        b':' => 4 * VALUE,
        b',' => 2 * VALUE,
        // A text, or what the parser gathers it in.
        _ => 3,
    });
    room.sum::<u64>() + FIRST_VALUES
}

const VALUE: u64 = size_of::<Value>() as u64;

/// A list or object has room for four members at once.
const FIRST_VALUES: u64 = 4 * (VALUE + size_of::<String>() as u64) + 96;

/// Entries of an array in the mount and its lines in `arrays.json`, beside its name, which they
/// have four times. Measured (mallinfo2, files of 5,000 to 100,000 datasets): 350 bytes and 270.
/// The `arrays.json` of its group has it once more.
const ARRAY: usize = 910;

/// A name, a fault or a reason, beside its text.
const NAME: usize = 256;

/// About how many bytes an opened container takes, with those inside of it and its `arrays.json`.
/// What a file can make large is counted.
pub fn weight(container: &Arc<Container>) -> usize {
    let all = container.all();
    let each = all.iter().map(|(_, each)| own_weight(each));
    each.fold(0, usize::saturating_add)
}

fn own_weight(container: &Container) -> usize {
    let texts = container.texts.iter().map(|text| text.content.len());
    let groups = container.groups.iter().map(String::len);
    let links = container
        .links
        .iter()
        .map(|l| l.name.len() + l.target.len());
    let further = container.further_names.iter();
    let further = further.map(|(name, first)| 4 * (name.len() + first.len()));
    let unreadable = container
        .unreadable
        .iter()
        .map(|u| u.name.len() + u.reason.len());
    let types = container.types.iter().map(|committed| {
        let dtype = match &committed.dtype {
            Ok((dtype, dims)) => 2 * dtype.name().len() + 32 * dims.len(),
            Err(why) => why.len(),
        };
        2 * committed.name.len() + dtype
    });
    let faults = container.faults.iter().map(|fault| fault.what.len());
    let described = container.described.iter();
    let described = described.map(|(name, attributes)| name.len() + of_attributes(attributes, 2));
    let named = texts
        .chain(groups)
        .chain(links)
        .chain(further)
        .chain(unreadable)
        .chain(types)
        .chain(faults)
        .chain(described);
    let named: usize = named.map(|len| NAME + len).sum();
    let details = container.details.iter();
    let details = details.map(|(name, details)| NAME + name.len() + details.weight());
    let details = details.fold(container.file.weight(), usize::saturating_add);
    let arrays = container.written();
    let arrays = arrays.map(|array| {
        let own = usize::try_from(array.weight()).unwrap_or(usize::MAX);
        own.saturating_add(ARRAY + 4 * array.name().len())
    });
    let arrays = arrays.fold(0, usize::saturating_add);
    let arrays = arrays.saturating_add(details);
    let arrays = arrays.saturating_add(2 * container.only_read.weight());
    arrays.saturating_add(named + of_attributes(&container.attributes, 1))
}

fn of_attributes(attributes: &Attributes, depth: usize) -> usize {
    let one = |(name, value): (&String, &Value)| 2 * name.len() + NAME + of_value(value, depth + 1);
    attributes.iter().map(one).sum()
}

/// A value in memory, where a list has room to grow, and its lines in `arrays.json`, indented by
/// its depth.
fn of_value(value: &Value, depth: usize) -> usize {
    let inner = match value {
        // A control character is spelled with six.
        Value::String(text) => {
            2 * text.len() + 5 * text.bytes().filter(u8::is_ascii_control).count()
        }
        Value::Array(items) => items.iter().map(|item| of_value(item, depth + 1)).sum(),
        Value::Object(members) => of_attributes(members, depth),
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    };
    2 * size_of::<Value>() + 4 * depth + inner
}
