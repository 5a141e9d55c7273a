//! `arrayfs info`: what `arrays.json` says, for people; of a container, or of one array or group.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::container::{FoundContainer, Meant};
use super::described::DescriptionWriter;
use super::failure::{CommandResult, Failure};
use super::in_mount::InMount;
use super::no_such_array::missing;
use super::{container, output, size, styled};
use crate::container::describe::{ArrayDescription, Description, TextsToRead, describe};
use crate::container::inside::join;
use crate::container::{Container, Preferences};
use crate::memory::budget::Budget;
use crate::tree::container_state::files_beside;
use crate::tree::xattr::DEAD_BYTES;

/// What of a container is described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DescribedPart {
    Container,
    Group,
    Array,
}

pub(super) fn run(path: &Path, preferences: Preferences, json: bool) -> CommandResult {
    let found = container::find(path, preferences)?;
    let opened = found.open(&Budget::by_default())?;
    let wanted = opened.resolve(&found.within);
    let mut description = describe(&opened, TextsToRead::All)?;
    let subject = subject_at(&found, &opened, &wanted, &description)?;
    let mut of_group = Map::new();
    if subject != DescribedPart::Container {
        of_group = description.groups.remove(&wanted).unwrap_or_default();
        keep_part(&mut description, &Meant::at(&wanted));
    }
    count_unfiltered(&mut description.arrays, &opened);
    description.read_only = opened.why_only_read();
    description.read_only_arrays = opened.arrays_only_read();
    let meant = Meant::at(&wanted);
    description
        .read_only_arrays
        .retain(|name, _| meant.has(name));
    if subject == DescribedPart::Container && found.recognised.layout().is_file() {
        description.beside = files_beside(&*found.store, &found.path).unwrap_or_default();
    }
    match (json, subject) {
        (true, DescribedPart::Array) => output::print(|out| {
            serde_json::to_writer_pretty(&mut *out, &description.arrays)?;
            writeln!(out)
        }),
        (true, DescribedPart::Group) => {
            description.attributes = &of_group;
            let text = description.into_text();
            output::print(|out| out.write_all(&text))
        }
        (true, DescribedPart::Container) => {
            let text = description.into_text();
            output::print(|out| out.write_all(&text))
        }
        (false, _) => {
            let dead = dead_bytes(path, &found.within).filter(|dead| *dead > 0);
            styled::print(|out| {
                print(
                    out,
                    (&found.shown(), &wanted),
                    subject,
                    (&description, &of_group),
                )?;
                if subject == DescribedPart::Container {
                    writeln!(out, "  {}", in_mounts(&found))?;
                }
                match dead {
                    Some(dead) => writeln!(out, "dead: {} at least", size::show(dead)),
                    None => Ok(()),
                }
            })
        }
    }
}

/// What a mount has of a container beside what is told of it, and lists in no directory.
fn in_mounts(found: &FoundContainer) -> &'static str {
    match found.recognised.layout().is_file() {
        true => "in a mount also: views/NAME.npy of each array, views/stored",
        false => "in a mount also: views/NAME.npy of each array",
    }
}

/// What is named, or why nothing is.
fn subject_at(
    found: &FoundContainer,
    opened: &Arc<Container>,
    wanted: &str,
    description: &Description<'_>,
) -> Result<DescribedPart, Failure> {
    if wanted.is_empty() {
        return Ok(DescribedPart::Container);
    }
    if description.arrays.iter().any(|array| array.name == wanted) {
        return Ok(DescribedPart::Array);
    }
    let meant = Meant::at(wanted);
    let mut told = description.arrays.iter().map(|array| &array.name);
    let mut groups = description
        .groups
        .keys()
        .chain(description.containers.keys());
    let all = opened.all();
    let mut bare = all.iter().flat_map(|(at, part)| {
        let groups = part.groups.iter();
        groups.map(|group| join(at, group))
    });
    let is_group = told.any(|name| meant.has(name))
        || groups.any(|group| meant.has(group))
        || bare.any(|group| meant.has(&group));
    match is_group {
        true => Ok(DescribedPart::Group),
        false => Err(missing(&found.shown(), opened, wanted)),
    }
}

/// Leaves out what is not in a group, or of another array. Paths stay as they are.
fn keep_part(description: &mut Description<'_>, meant: &Meant) {
    fn keep<T>(of: &mut BTreeMap<String, T>, meant: &Meant) {
        of.retain(|name, _| meant.has(name));
    }
    description.keep(&|name| meant.has(name));
    keep(&mut description.groups, meant);
    keep(&mut description.group_details, meant);
    keep(&mut description.types, meant);
    keep(&mut description.links, meant);
    keep(&mut description.containers, meant);
    // Faults say where they are, and may be of all of the file.
    let dims = description
        .arrays
        .iter()
        .flat_map(|array| &array.details.dims);
    let dims: Vec<String> = dims.flatten().cloned().collect();
    let file = &mut description.file;
    file.dimensions
        .retain(|name, _| dims.contains(name) || meant.has(name));
    file.hard_links.retain(|name, _| meant.has(name));
}

/// Bytes of the file in which nothing lies, as far as a daemon knows that writes to it.
fn dead_bytes(path: &Path, within: &str) -> Option<u64> {
    let place = InMount::written_at(path).ok()??;
    let mut names = within.split('/').filter(|name| !name.is_empty());
    let container = names.try_fold(path, |path, _| path.parent())?;
    let container = place.in_mount(container)?;
    let mut value = [0; 32];
    let n = rustix::fs::getxattr(container, DEAD_BYTES, &mut value[..]).ok()?;
    std::str::from_utf8(value.get(..n)?).ok()?.parse().ok()
}

/// Has the places of all chunks looked up, as `arrays.json` in a mount does not. What cannot be
/// read is for `verify` to tell.
fn count_unfiltered(told: &mut [ArrayDescription], opened: &Arc<Container>) {
    let arrays = opened.all_arrays().into_iter();
    let arrays: HashMap<String, _> = arrays.map(|located| (located.path(), located)).collect();
    for told in told {
        let located = arrays.get(&told.name);
        let counted = located.and_then(|located| located.array.unfiltered(true).ok());
        told.unfiltered = counted.unwrap_or_default();
    }
}

fn print(
    out: &mut impl Write,
    (path, wanted): (&Path, &str),
    subject: DescribedPart,
    (description, of_group): (&Description<'_>, &Map<String, Value>),
) -> io::Result<()> {
    let (path, file) = (output::path_text(path), &description.file);
    let format = format!("{} {}", description.format, description.version);
    if subject == DescribedPart::Array {
        let Some(array) = description.arrays.first() else {
            return Ok(());
        };
        let title = styled::Styled(styled::NAME, format!("{path}/{wanted}"));
        writeln!(out, "{title}: array, {}", format.trim_end())?;
        DescriptionWriter::one(out, file).about(array)?;
        let own = description.read_only_arrays.get(&array.name);
        let own = own.map(|why| (*why).to_owned());
        return match own.or_else(|| description.read_only.clone()) {
            Some(why) => writeln!(out, "  read-only: {why}"),
            None => Ok(()),
        };
    }
    let mut describing = DescriptionWriter::many(out, file);
    let arrays = &description.arrays;
    match subject {
        DescribedPart::Group => {
            let what = match description.containers.get(wanted) {
                Some(inner) => format!("group, a container: {inner}"),
                None => format!("group, {format}"),
            };
            describing.overview(format!("{path}/{wanted}"), what.trim_end(), arrays)?;
            describing.attributes(of_group)?;
        }
        _ => {
            describing.overview(path, format.trim_end(), arrays)?;
            describing.attributes(description.attributes)?;
        }
    }
    describing.dimensions()?;
    describing.arrays_in_groups(description)?;
    describing.others(description)
}
