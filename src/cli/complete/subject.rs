//! What is being typed: which argument of which command, by the commands' definition.
//!
//! Pure. Used by [`super`].

use clap::{Arg, Command};

use super::super::definition;

/// What an argument names.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TypedSubject {
    File,
    /// A path that may lead into a container.
    ContainerOrArray,
    /// An array of the container at this path.
    ArrayOf(String),
    Mount,
    /// Those behind `-o`.
    MountOptions,
}

/// None: a command, an option, or the value of one that the shell's own rules know.
pub(super) fn of(before: &[String], current: &str) -> Option<TypedSubject> {
    let mut whole = definition::arrayfs();
    whole.build();
    let mut command = &whole;
    let (mut given, mut wants_value, mut are_options_over) = (Vec::new(), None, false);
    for word in before {
        if wants_value.take().is_some() {
            continue;
        }
        match word {
            word if !are_options_over && word.starts_with('-') && word.len() > 1 => {
                are_options_over = word == "--";
                wants_value = valued(command, word);
            }
            word => match command.find_subcommand(word).filter(|_| given.is_empty()) {
                Some(below) => command = below,
                None => given.push(word.as_str()),
            },
        }
    }
    match wants_value {
        Some(option) => (option.get_id() == "options").then_some(TypedSubject::MountOptions),
        None if current.starts_with('-') && !are_options_over => None,
        None => argument(command, &given),
    }
}

/// The option whose value is the next word.
fn valued<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let takes_next =
        |option: &&Arg| option.get_action().takes_values() && !option.is_require_equals_set();
    if let Some(long) = word.strip_prefix("--") {
        let is_it = |option: &&Arg| {
            let aliases = option.get_all_aliases().unwrap_or_default();
            option.get_long() == Some(long) || aliases.contains(&long)
        };
        return command.get_opts().find(is_it).filter(takes_next);
    }
    // What follows the first that takes a value is the value.
    let shorts = word.char_indices().skip(1);
    let mut options = shorts.filter_map(|(at, short)| {
        let mut options = command.get_opts();
        let option = options.find(|option| option.get_short() == Some(short))?;
        Some((at + short.len_utf8() == word.len(), option))
    });
    let (is_last, option) = options.next()?;
    Some(option).filter(takes_next).filter(|_| is_last)
}

/// What the next argument names that is no option, after those that were given.
fn argument(command: &Command, given: &[&str]) -> Option<TypedSubject> {
    let arguments: Vec<&Arg> = command.get_positionals().collect();
    let is_repeated = |arg: &Arg| {
        arg.get_num_args()
            .is_some_and(|count| count.max_values() > 1)
    };
    let last = arguments.last().filter(|last| is_repeated(last));
    let argument = arguments.get(given.len()).or(last)?;
    Some(match (argument.get_id().as_str(), command.get_name()) {
        ("mountpoint", "umount" | "top" | "status") => TypedSubject::Mount,
        ("container" | "path" | "paths", _) => TypedSubject::ContainerOrArray,
        ("array", _) => TypedSubject::ArrayOf((*given.first()?).to_owned()),
        _ => TypedSubject::File,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(line: &str) -> Option<TypedSubject> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let (current, before) = words.split_last().unwrap();
        of(before, current)
    }

    #[test]
    fn arguments_are_told_from_options_and_their_values() {
        use TypedSubject::{ArrayOf, ContainerOrArray, File, Mount, MountOptions};
        for (line, expected) in [
            ("sho", None),
            ("show ", Some(ContainerOrArray)),
            ("show --slice 3 x/", Some(ContainerOrArray)),
            ("show --slice ", None),
            ("show --slice=3 x/", Some(ContainerOrArray)),
            ("show --plot x/", Some(ContainerOrArray)),
            ("show -ps 3 x/", Some(ContainerOrArray)),
            ("show -s3 x/", Some(ContainerOrArray)),
            ("show -ps ", None),
            ("show x.h5 ", Some(ArrayOf("x.h5".to_owned()))),
            ("show x.h5 a b", None),
            ("cat --offset 3 x.h5 a", Some(ArrayOf("x.h5".to_owned()))),
            ("verify a b c", Some(ContainerOrArray)),
            ("stage ls ", Some(ContainerOrArray)),
            ("stage ", None),
            ("--dialect spec ls x/", Some(ContainerOrArray)),
            ("ls --", None),
            ("ls -- -x/", Some(ContainerOrArray)),
            ("umount ", Some(Mount)),
            ("umount --quick /m", Some(Mount)),
            ("status ", Some(Mount)),
            ("mount -o ro,", Some(MountOptions)),
            ("mount --cache ", None),
            ("mount -f -o ro /data", Some(File)),
            ("mount /data ", Some(File)),
            ("pack ", Some(File)),
        ] {
            assert_eq!(typed(line), expected, "{line}");
        }
    }
}
