function __fish_arrayfs_asked
    set -l typed (commandline -ct | string unescape)
    arrayfs complete words -- (commandline -opc) "$typed" 2>/dev/null
end
complete -c arrayfs -n "not __fish_arrayfs_needs_command" -a "(__fish_arrayfs_asked)"
complete -c arrayfs -n "__fish_arrayfs_using_subcommand mount" -s o -r -f -a "(__fish_arrayfs_asked)"
