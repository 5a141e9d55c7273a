//! Soft links, resolved within the file and without the library: on the groups that were found.
//!
//! libhdf5 would follow a path through external links and links of other programs; this never
//! leaves what was listed. A link in a loop, or behind more than [`HOPS_MOST`] others, leads
//! nowhere.

use std::collections::HashSet;
use std::mem::replace;

use crate::container::hdf5::index::{GroupEntry, LinkTarget};

/// Soft links on the way to one target.
const HOPS_MOST: u32 = 40;
/// Components on the way to one target, those of the links on it included.
const STEPS_MOST: u32 = 4096;

/// Replaces the targets of soft links, which are listed as [`LinkTarget::Dangling`], by what they
/// lead to.
pub(super) fn resolve(groups: &mut [GroupEntry]) {
    let mut nowhere = HashSet::new();
    for group in 0..groups.len() {
        for link in 0..groups[group].links.len() {
            let LinkTarget::Dangling { path } = &groups[group].links[link].target else {
                continue;
            };
            match follow(groups, &nowhere, group, path) {
                Some(found) => {
                    let link = &mut groups[group].links[link];
                    if let LinkTarget::Dangling { path } = replace(&mut link.target, found) {
                        link.soft = Some(path);
                    }
                }
                None => {
                    nowhere.insert((group, link));
                }
            }
        }
    }
}

/// What `path` leads to from the group numbered `from`; none if it leads nowhere. Links known to
/// lead `nowhere` are not followed again: whatever goes through them goes further still.
fn follow(
    groups: &[GroupEntry],
    nowhere: &HashSet<(usize, usize)>,
    from: usize,
    path: &[u8],
) -> Option<LinkTarget> {
    let mut way = vec![components(path)];
    let mut at = if is_absolute(path) { 0 } else { from };
    let mut hops = 0;
    for _ in 0..STEPS_MOST {
        let Some(component) = next(&mut way) else {
            return Some(LinkTarget::Group(u32::try_from(at).ok()?));
        };
        let links = &groups.get(at)?.links;
        let link = links.binary_search_by(|link| link.name[..].cmp(component));
        let link = link.ok()?;
        match &links.get(link)?.target {
            LinkTarget::Group(group) => at = *group as usize,
            LinkTarget::Dangling { path } => {
                hops += 1;
                if hops >= HOPS_MOST || nowhere.contains(&(at, link)) {
                    return None;
                }
                if is_absolute(path) {
                    at = 0;
                }
                way.push(components(path));
            }
            LinkTarget::External { .. } if next(&mut way).is_some() => {
                let reason = "a soft link through another file; never followed".into();
                return Some(LinkTarget::NotFollowed { reason });
            }
            last => return next(&mut way).is_none().then(|| last.clone()),
        }
    }
    None
}

type Components<'a> = Box<dyn Iterator<Item = &'a [u8]> + 'a>;

/// Empty components and `.` stay where they are; `..` is a name like any other.
fn components(path: &[u8]) -> Components<'_> {
    let parts = path.split(|&b| b == b'/');
    Box::new(parts.filter(|part| !part.is_empty() && *part != b"."))
}

fn is_absolute(path: &[u8]) -> bool {
    path.first() == Some(&b'/')
}

fn next<'a>(way: &mut Vec<Components<'a>>) -> Option<&'a [u8]> {
    loop {
        match way.last_mut()?.next() {
            Some(component) => return Some(component),
            None => way.pop(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::hdf5::index::LinkEntry;

    fn group(links: &[(&str, LinkTarget)]) -> GroupEntry {
        let link = |(name, target): &(&str, LinkTarget)| LinkEntry {
            name: name.as_bytes().to_vec(),
            target: target.clone(),
            soft: None,
            age: None,
        };
        GroupEntry {
            token: 0,
            parent: 0,
            name: Vec::new(),
            attributes: Vec::new(),
            links: links.iter().map(link).collect(),
        }
    }

    fn soft(path: &str) -> LinkTarget {
        LinkTarget::Dangling { path: path.into() }
    }

    fn elsewhere() -> LinkTarget {
        LinkTarget::External {
            file: b"other.h5".to_vec(),
            path: b"/".to_vec(),
        }
    }

    fn resolved(links: &[(&str, LinkTarget)], inner: &[(&str, LinkTarget)]) -> Vec<LinkTarget> {
        let mut groups = [group(links), group(inner)];
        resolve(&mut groups);
        let links = groups[0].links.iter();
        links.map(|link| link.target.clone()).collect()
    }

    #[test]
    fn paths_lead_through_groups_and_other_links() {
        let links = [
            ("a", soft("g/./up/d")),
            ("b", soft("/a")),
            ("c", soft("g//")),
            ("d", LinkTarget::Dataset(7)),
            ("g", LinkTarget::Group(1)),
        ];
        let found = resolved(&links, &[("up", soft("/"))]);
        assert_eq!(found[0], LinkTarget::Dataset(7));
        assert_eq!(found[1], LinkTarget::Dataset(7));
        assert_eq!(found[2], LinkTarget::Group(1));
    }

    #[test]
    fn loops_and_ways_out_of_the_file_lead_nowhere() {
        let links = [
            ("a", soft("b")),
            ("b", soft("a")),
            ("c", soft("x/y")),
            ("d", soft("../a")),
            ("e", soft("x")),
            ("f", soft("f/f/f")),
            ("x", elsewhere()),
        ];
        let found = resolved(&links, &[]);
        for at in [0, 1, 3, 5] {
            assert_eq!(found[at], links[at].1);
        }
        assert!(matches!(found[2], LinkTarget::NotFollowed { .. }));
        assert_eq!(found[4], elsewhere());
    }
}
