//! Manual pages, one for each command and one for `mount.fuse.arrayfs`, made of the definition:
//! names, options and descriptions by `clap_mangen`, then sections that it does not know.
//!
//! Used by [`super::generate`].

use std::io;

use clap::{Arg, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};

use super::definition;
use super::examples;
use super::flagless_options::FLAGLESS;

const MANUAL: &str = "arrayfs";

/// The pages of system commands.
const MOUNT_HELPER: &str = "mount.fuse.arrayfs";
const UMOUNT_HELPER: &str = "umount.fuse.arrayfs";

/// Another name of the first one, for `mount -t arrayfs`: its page is the same.
const SHORT_MOUNT_HELPER: &str = "mount.arrayfs";

/// How help texts begin what becomes a section.
const EXIT_STATUS: &str = "Exit status: ";

/// A page, and the name of its file.
pub(super) struct ManualPage {
    pub(super) file: String,
    pub(super) text: Vec<u8>,
}

/// All of them.
pub(super) fn pages() -> io::Result<Vec<ManualPage>> {
    let whole = definition::arrayfs().disable_help_subcommand(true);
    let mut whole = with_values_in_lines(whole);
    whole.build();
    let everywhere = exit_status(&whole).unwrap_or_default();
    let mut pages = Vec::new();
    add(&mut pages, &whole, "", &everywhere)?;
    let helpers = [
        (MOUNT_HELPER, definition::mount_helper(), "mount.8"),
        (SHORT_MOUNT_HELPER, definition::mount_helper(), "mount.8"),
        (UMOUNT_HELPER, definition::umount_helper(), "umount.8"),
    ];
    for (name, helper, caller) in helpers {
        let others = ["arrayfs-mount.1", "arrayfs-umount.1", caller, "fstab.5"];
        let others = others.map(str::to_owned);
        pages.push(ManualPage {
            file: format!("{name}.8"),
            text: page(&helper, helper.get_name(), "8", &everywhere, &others)?,
        });
    }
    Ok(pages)
}

/// Values of options as a list within their help: `clap_mangen` gives each a paragraph.
fn with_values_in_lines(command: Command) -> Command {
    let names: Vec<_> = command
        .get_subcommands()
        .map(|below| below.get_name().to_owned())
        .collect();
    let command = command.mut_args(values_in_line);
    let below = |command: Command, name| command.mut_subcommand(name, with_values_in_lines);
    names.into_iter().fold(command, below)
}

fn values_in_line(arg: Arg) -> Arg {
    let values = arg.get_possible_values();
    if values.is_empty() || arg.is_hide_possible_values_set() || !arg.get_action().takes_values() {
        return arg;
    }
    let values: Vec<_> = values.iter().map(|value| value.get_name()).collect();
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let help = format!("{help}: {}", values.join(", "));
    arg.help(help).hide_possible_values(true)
}

/// The day of the pages, as `2026-01-31`: what builds of packages say, else today.
fn day() -> String {
    let said = std::env::var("SOURCE_DATE_EPOCH").ok();
    let said = said.and_then(|seconds| jiff::Timestamp::from_second(seconds.parse().ok()?).ok());
    let at = said.unwrap_or_else(jiff::Timestamp::now);
    at.strftime("%Y-%m-%d").to_string()
}

/// Adds the pages of a command and of those below it; `path` is its name without `arrayfs`.
fn add(
    pages: &mut Vec<ManualPage>,
    command: &Command,
    path: &str,
    everywhere: &str,
) -> io::Result<()> {
    let page_of = |path: &str| match path {
        "" => "arrayfs.1".to_owned(),
        path => format!("arrayfs-{}.1", path.replace(' ', "-")),
    };
    let below = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path} {name}"),
    };
    let shown = || {
        command
            .get_subcommands()
            .filter(|below| !below.is_hide_set())
    };
    let mut others: Vec<_> = shown()
        .map(|child| page_of(&below(child.get_name())))
        .collect();
    if let Some((above, _)) = path.rsplit_once(' ') {
        others.push(page_of(above));
    }
    if path.is_empty() || path == "mount" {
        others.push(format!("{MOUNT_HELPER}.8"));
    }
    if path == "mount" {
        others.extend(["arrayfs-umount.1", "fusermount3.1"].map(str::to_owned));
    }
    if !path.is_empty() {
        others.push(page_of(""));
    }
    pages.push(ManualPage {
        file: page_of(path),
        text: page(command, path, "1", everywhere, &others)?,
    });
    for child in shown() {
        add(pages, child, &below(child.get_name()), everywhere)?;
    }
    Ok(())
}

/// One page. `path` says whose examples and options it has, `others` the pages to see.
fn page(
    command: &Command,
    path: &str,
    section: &str,
    everywhere: &str,
    others: &[String],
) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone())
        .section(section)
        .date(day())
        .manual(MANUAL);
    let man = man.source(format!("arrayfs {}", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    let mut roff = Roff::default();
    synopsis(&mut roff, command);
    roff.to_writer(&mut text)?;
    man.render_description_section(&mut text)?;
    let mut roff = Roff::default();
    more_description(&mut roff, command);
    roff.to_writer(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.get_subcommands().any(|below| !below.is_hide_set()) {
        man.render_subcommands_section(&mut text)?;
    }
    let mut roff = Roff::default();
    if path == "mount" || path == MOUNT_HELPER {
        flagless(&mut roff);
    }
    let own = exit_status(command);
    roff.control("SH", ["EXIT STATUS"]);
    roff.text([roman(own.as_deref().unwrap_or(everywhere))]);
    show_examples(&mut roff, path);
    see_also(&mut roff, others);
    roff.to_writer(&mut text)?;
    Ok(text)
}

/// How a command is called. `clap_mangen` leaves out that options have values.
fn synopsis(roff: &mut Roff, command: &Command) {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let mut line = vec![bold(name)];
    let options = command.get_opts().chain(flags(command));
    for option in options.filter(|option| !option.is_hide_set()) {
        line.push(roman(" ["));
        line.push(bold(spelled(option)));
        line.extend(values(option).map(italic));
        line.push(roman("]"));
    }
    for given in command.get_positionals() {
        let (opens, closes) = match (given.is_required_set(), is_repeated(given)) {
            (true, false) => (" ", ""),
            (true, true) => (" ", " ..."),
            (false, _) => (" [", "]"),
        };
        let name = given.get_value_names().unwrap_or_default().join(" ");
        line.extend([roman(opens), italic(name), roman(closes)]);
    }
    if command.get_subcommands().any(|below| !below.is_hide_set()) {
        line.extend([roman(" "), italic("COMMAND")]);
    }
    roff.control("SH", ["SYNOPSIS"]);
    roff.text(line);
}

/// Options without a value, but for those that every command has.
fn flags(command: &Command) -> impl Iterator<Item = &Arg> {
    let is_everywhere = |arg: &Arg| matches!(arg.get_id().as_str(), "help" | "version");
    let is_flag = move |arg: &&Arg| {
        !arg.is_positional() && !arg.get_action().takes_values() && !is_everywhere(arg)
    };
    command.get_arguments().filter(is_flag)
}

fn spelled(option: &Arg) -> String {
    match (option.get_long(), option.get_short()) {
        (Some(long), _) => format!("--{long}"),
        (None, short) => format!("-{}", short.unwrap_or_default()),
    }
}

/// The values of an option, as they stand behind it.
fn values(option: &Arg) -> Option<String> {
    let names = option.get_value_names().unwrap_or_default().join(" ");
    let is_optional = option
        .get_num_args()
        .is_some_and(|count| count.min_values() == 0);
    match (option.get_action().takes_values(), is_optional) {
        (false, _) => None,
        (true, false) => Some(format!(" {names}")),
        (true, true) => Some(format!("[={names}]")),
    }
}

fn is_repeated(given: &Arg) -> bool {
    given
        .get_num_args()
        .is_some_and(|count| count.max_values() > 1)
}

/// What a command's help says of its exit status.
fn exit_status(command: &Command) -> Option<String> {
    let help = command.get_after_help()?.to_string();
    let (_, status) = help.split_once(EXIT_STATUS)?;
    let status = status.lines().collect::<Vec<_>>().join(" ");
    Some(format!("{}.", status.trim_end_matches('.')))
}

/// Paragraphs of the help text that are neither examples nor the exit status.
fn more_description(roff: &mut Roff, command: &Command) {
    let help = command.get_after_help().map(ToString::to_string);
    for paragraph in help.unwrap_or_default().split("\n\n") {
        let section = paragraph.starts_with("Examples:") || paragraph.starts_with(EXIT_STATUS);
        if !section && !paragraph.is_empty() {
            roff.control("PP", []);
            roff.text([roman(paragraph)]);
        }
    }
}

/// Options of `-o` that are not long options, too.
fn flagless(roff: &mut Roff) {
    roff.control("SH", ["MOUNT OPTIONS"]);
    roff.text([roman(
        "Long options without their dashes, as in 'ro,cache=4G,allow_other', and these:",
    )]);
    for (option, meaning) in FLAGLESS {
        roff.control("TP", []);
        roff.text([bold(*option)]);
        roff.text([roman(*meaning)]);
    }
}

fn show_examples(roff: &mut Roff, path: &str) {
    let examples = examples::of(path);
    if examples.is_empty() {
        return;
    }
    roff.control("SH", ["EXAMPLES"]);
    for example in examples {
        roff.control("TP", []);
        roff.text([bold(example.typed)]);
        roff.text([roman(example.does)]);
    }
}

/// `others` are named like their files: `arrayfs-ls.1`.
fn see_also(roff: &mut Roff, others: &[String]) {
    roff.control("SH", ["SEE ALSO"]);
    let mut line = Vec::new();
    for (name, section) in others.iter().filter_map(|page| page.rsplit_once('.')) {
        if !line.is_empty() {
            line.push(roman(", "));
        }
        line.extend([bold(name), roman(format!("({section})"))]);
    }
    roff.text(line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_page_for_each_command_and_none_for_internal_ones() {
        let pages = pages().unwrap();
        let files: Vec<_> = pages.iter().map(|page| page.file.as_str()).collect();
        let expected = ["arrayfs.1", "arrayfs-mount.1", "arrayfs-stage-discard.1"];
        for file in expected
            .into_iter()
            .chain(["mount.fuse.arrayfs.8", "umount.fuse.arrayfs.8"])
        {
            assert!(files.contains(&file), "{files:?}");
        }
        for page in &pages {
            let text = String::from_utf8(page.text.clone()).unwrap();
            for section in ["NAME", "SYNOPSIS", "OPTIONS", "\"EXIT STATUS\"", "EXAMPLES"] {
                assert!(
                    text.contains(&format!(".SH {section}")),
                    "{}: {section}",
                    page.file
                );
            }
            for internal in ["hdf5-worker", "hdf5\\-worker", "guardian", "generate"] {
                assert!(!text.contains(internal), "{}: {internal}", page.file);
            }
            let linked = text
                .lines()
                .skip_while(|line| *line != ".SH \"SEE ALSO\"")
                .last();
            assert!(
                linked.is_some_and(|line| line.contains("arrayfs")),
                "{}",
                page.file
            );
        }
    }

    #[test]
    fn exit_statuses_are_those_of_the_command() {
        let pages = pages().unwrap();
        let text = |file: &str| {
            let page = pages.iter().find(|page| page.file == file).unwrap();
            String::from_utf8(page.text.clone()).unwrap()
        };
        assert!(text("arrayfs-verify.1").contains("0 sound, 1 faults found"));
        assert!(text("arrayfs-ls.1").contains("0 done, 1 failed"));
        assert!(text("arrayfs-mount.1").contains("typesize"));
    }

    /// The synopsis of a page, as it is read.
    fn synopsis_of(file: &str) -> String {
        let pages = pages().unwrap();
        let page = pages.iter().find(|page| page.file == file).unwrap();
        let text = String::from_utf8(page.text.clone()).unwrap();
        let mut lines = text.lines().skip_while(|line| *line != ".SH SYNOPSIS");
        let line = lines.nth(1).unwrap();
        let marks = ["\\fB", "\\fI", "\\fR", "\\"].iter();
        marks.fold(line.to_owned(), |line, mark| line.replace(mark, ""))
    }

    #[test]
    fn a_synopsis_has_values_and_the_source_before_the_mountpoint() {
        let mount = synopsis_of("arrayfs-mount.1");
        for part in [
            "[-o OPTIONS]",
            "[--cache SIZE]",
            "[--codec CODEC]",
            "[--ro]",
        ] {
            assert!(mount.contains(part), "{part} in {mount}");
        }
        assert!(mount.starts_with("arrayfs mount [") && mount.ends_with(" SOURCE MOUNTPOINT"));
        assert!(synopsis_of("arrayfs-show.1").contains("[--plot[=KIND]]"));
        assert!(synopsis_of("arrayfs-verify.1").ends_with(" PATHS ..."));
        assert!(synopsis_of("arrayfs.1").ends_with(" COMMAND"));
        assert!(synopsis_of("mount.fuse.arrayfs.8").ends_with(" SOURCE MOUNTPOINT"));
    }
}
