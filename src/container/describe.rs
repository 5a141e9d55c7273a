//! `arrays.json`: what a container holds, for programs; and the same for `info --json` and `ls
//! --json`. Also how much memory an opened container and that text take.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use super::inside::{Located, join};
use super::rewrite::Restated;
use super::{Attributes, Container};
use crate::array::Info;
use crate::array::dtype::Dtype;
use crate::error::{Error, Result};
use crate::memory::set_aside;

#[derive(Serialize)]
pub struct Description<'a> {
    pub format: &'static str,
    pub version: &'a str,
    pub arrays: Vec<ArrayDescription>,
    pub attributes: &'a Map<String, Value>,
    /// Attributes of groups, by path.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, Map<String, Value>>,
    /// What is in the container and cannot be shown: name and reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<UnreadableDescription>,
    /// Types that have names of their own, and no data.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub types: BTreeMap<String, TypeDescription>,
    /// Symbolic links to groups: name and target.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub links: BTreeMap<String, String>,
    /// Containers in groups of this one: path and format.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub containers: BTreeMap<String, &'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
}

#[derive(Serialize)]
pub struct UnreadableDescription {
    pub name: String,
    pub reason: String,
    /// Not damaged; what is stands among the faults.
    #[serde(skip)]
    pub is_whole: bool,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub attributes: Map<String, Value>,
}

/// A type, as an array of it would be shown.
#[derive(Serialize)]
pub struct TypeDescription {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtype: Option<String>,
    /// Dimensions that each element has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shape: Vec<u64>,
    /// Why an array of it could not be shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub attributes: Map<String, Value>,
}

#[derive(Serialize)]
pub struct ArrayDescription {
    pub name: String,
    pub dtype: String,
    pub shape: Vec<u64>,
    pub order: &'static str,
    pub bytes: u64,
    pub stored_bytes: u64,
    pub blocks: u64,
    pub codec: Cow<'static, str>,
    /// `null` if it has a type but no space for elements; the shape of such an array is that of an
    /// empty one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub space: Option<&'static str>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub attributes: Map<String, Value>,
}

impl TypeDescription {
    fn new(
        dtype: std::result::Result<(Dtype, Vec<u64>), String>,
        attributes: Map<String, Value>,
    ) -> Self {
        let (dtype, shape, unreadable) = match dtype {
            Ok((dtype, shape)) => (Some(dtype.name().into_owned()), shape, None),
            Err(why) => (None, Vec::new(), Some(why)),
        };
        TypeDescription {
            dtype,
            shape,
            unreadable,
            attributes,
        }
    }
}

impl Description<'_> {
    /// Leaves out the arrays, and what cannot be shown, by other names.
    pub fn keep(&mut self, is_kept: &dyn Fn(&str) -> bool) {
        self.arrays.retain(|array| is_kept(&array.name));
        self.unreadable.retain(|member| is_kept(&member.name));
    }
}

impl ArrayDescription {
    pub fn new(name: String, info: Info, attributes: Map<String, Value>) -> Self {
        ArrayDescription {
            name,
            dtype: info.dtype.name().into_owned(),
            shape: info.shape,
            order: info.order.name(),
            bytes: info.bytes,
            stored_bytes: info.stored_bytes,
            blocks: info.blocks,
            codec: info.codec,
            space: None,
            attributes,
        }
    }
}

/// Describes a container and those inside of it. An array whose description fails is left out; its
/// fault is among the faults, or the reason among what is unreadable.
pub fn describe(container: &Arc<Container>) -> Result<Description<'_>> {
    describe_arrays(container, &|located| located.array.info())
}

fn describe_arrays<'a>(
    container: &'a Arc<Container>,
    info: &dyn Fn(&Located) -> Result<Info>,
) -> Result<Description<'a>> {
    let mut described = container.all_described();
    let listed = list_arrays(container, info, &mut described)?;
    let unreadable = container.all_unreadable().into_iter();
    let unreadable = unreadable.map(|(group, member)| {
        let name = join(&group, &member.name);
        UnreadableDescription {
            attributes: described.remove(&name).unwrap_or_default(),
            name,
            reason: member.reason,
            is_whole: member.is_whole,
        }
    });
    let unreadable: Vec<_> = unreadable.chain(listed.late).collect();
    let types = container.all_types().into_iter();
    let types = types.map(|(group, committed)| {
        let name = join(&group, &committed.name);
        let attributes = described.remove(&name).unwrap_or_default();
        (name, TypeDescription::new(committed.dtype, attributes))
    });
    let types = types.collect();
    let inner = container.all().into_iter().skip(1);
    let links = container.links.iter();
    Ok(Description {
        format: container.format,
        version: &container.version,
        arrays: listed.arrays,
        attributes: &container.attributes,
        groups: described,
        unreadable,
        types,
        links: links
            .map(|link| (link.name.clone(), link.target.clone()))
            .collect(),
        containers: inner
            .map(|(path, inner)| (path.to_string(), inner.format))
            .collect(),
        faults: listed.faults,
    })
}

/// The arrays that can be described, and why the others cannot.
struct ListedArrays {
    arrays: Vec<ArrayDescription>,
    /// Not shown, which came out only when they were described.
    late: Vec<UnreadableDescription>,
    faults: Vec<String>,
}

fn list_arrays(
    container: &Arc<Container>,
    info: &dyn Fn(&Located) -> Result<Info>,
    described: &mut BTreeMap<String, Attributes>,
) -> Result<ListedArrays> {
    let without_space = container.all_without_space();
    let (mut arrays, mut late) = (Vec::new(), Vec::new());
    let mut faults = texts(container.all_faults());
    for located in container.all_arrays() {
        let path = located.path();
        let attributes = described.remove(&path).unwrap_or_default();
        match info(&located) {
            Ok(info) => {
                let space = without_space.contains(&path).then_some("null");
                let described = ArrayDescription::new(path, info, attributes);
                arrays.push(ArrayDescription { space, ..described });
            }
            Err(fault @ Error::Fault(_)) => faults.push(located.locate(fault).to_string()),
            Err(Error::NotShown(not)) => late.push(UnreadableDescription {
                name: path,
                reason: not.why,
                is_whole: true,
                attributes,
            }),
            Err(other) => return Err(other),
        }
    }
    Ok(ListedArrays {
        arrays,
        late,
        faults,
    })
}

fn texts(faults: Vec<crate::error::Fault>) -> Vec<String> {
    faults.iter().map(ToString::to_string).collect()
}

/// How many times smaller the array is stored than shown.
pub fn ratio(info: &Info) -> Option<f64> {
    (info.stored_bytes > 0).then(|| info.bytes as f64 / info.stored_bytes as f64)
}

/// The text of `arrays.json`.
pub fn arrays_json(container: &Arc<Container>) -> Result<Vec<u8>> {
    arrays_json_restated(container, &[])
}

/// The same of a container with changes that are not stored. `restated`: of it and of those inside,
/// in the order of [`Container::all`], as far as there is any.
pub fn arrays_json_restated(
    container: &Arc<Container>,
    restated: &[Arc<Restated>],
) -> Result<Vec<u8>> {
    let own = restated.first();
    let own_attributes = own.map(|own| &own.attributes).into_iter().flatten();
    // The description, and a text that grows: while it does, there are two.
    let room = 4 * weight(container) as u64;
    set_aside(room, "cannot describe a container", || {
        let mut attributes = container.attributes.clone();
        attributes.extend(own_attributes.map(|(name, value)| (name.clone(), value.clone())));
        let info = |located: &Located| {
            let part = restated.get(located.container.0);
            match part.and_then(|part| part.arrays.get(located.array.name())) {
                Some(info) => Ok(info.clone()),
                None => located.array.info(),
            }
        };
        let described = describe_arrays(container, &info)?;
        let description = Description {
            version: own
                .and_then(|own| own.version.as_deref())
                .unwrap_or(&container.version),
            attributes: &attributes,
            ..described
        };
        let mut text = serde_json::to_vec_pretty(&description).unwrap_or_default();
        text.push(b'\n');
        Ok(text)
    })?
}

/// Most memory that a JSON text takes as a value, and while it becomes one.
pub(super) fn value_room(text: &[u8]) -> u64 {
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
const ARRAY: usize = 640;

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
        .chain(unreadable)
        .chain(types)
        .chain(faults)
        .chain(described);
    let named: usize = named.map(|len| NAME + len).sum();
    let arrays = container.written();
    let arrays = arrays.map(|array| {
        let own = usize::try_from(array.weight()).unwrap_or(usize::MAX);
        own.saturating_add(ARRAY + 4 * array.name().len())
    });
    let arrays = arrays.fold(0, usize::saturating_add);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::{Inner, Text};
    use serde_json::json;

    fn with_attribute(value: Value) -> Arc<Container> {
        let mut container = Container::new("x", "1");
        container.attributes.insert("a".into(), value);
        Arc::new(container)
    }

    #[test]
    fn what_a_file_makes_large_weighs() {
        let empty = weight(&Arc::new(Container::new("x", "1")));
        assert!(empty < 1000, "{empty}");
        let mut inner = Container::new("x", "1");
        inner.texts.push(Text {
            name: "t".into(),
            content: Arc::new(vec![0; 5000]),
        });
        let mut outer = Container::new("x", "1");
        outer.inner.push(Inner {
            path: "g".into(),
            container: Arc::new(inner),
        });
        assert!((5000..6000).contains(&weight(&Arc::new(outer))));
    }

    #[test]
    fn the_weight_covers_arrays_json() {
        let nested = (0..100).fold(json!([0, 0, "\u{1}\u{1}"]), |inner, _| json!([inner, 0]));
        let mut lines = json!(vec![0; 1000]);
        for _ in 0..100 {
            lines = json!([lines]);
        }
        for value in [
            nested,
            lines,
            json!("\u{1}".repeat(1000)),
            json!({"b": {"c": [1.5e300]}}),
        ] {
            let container = with_attribute(value);
            let text = arrays_json(&container).unwrap().len();
            assert!(
                weight(&container) >= text,
                "{} < {text}",
                weight(&container)
            );
        }
    }
}
