_arrayfs_asking() {
    local found line
    if ! found=$("$1" complete bash "${COMP_LINE:0:COMP_POINT}" 2>/dev/null); then
        _arrayfs "$@"
        return
    fi
    COMPREPLY=()
    while IFS= read -r line; do
        [[ -z $line ]] || COMPREPLY+=("$line")
    done <<<"$found"
    # As names of files they get the quotes that they need; what is not complete gets no space.
    [[ $found != */* ]] || compopt -o filenames 2>/dev/null
    [[ $found != *[/=] ]] || compopt -o nospace 2>/dev/null
}

