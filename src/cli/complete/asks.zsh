    local found
    if found=$("${(Q)words[1]}" complete words -- "${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null); then
        if [[ -z $found ]]; then
            _files
            return
        fi
        local -a whole partial
        whole=(${(M)${(f)found}:#*[^/=]})
        partial=(${(M)${(f)found}:#*[/=]})
        compadd -a whole
        compadd -S '' -a partial
        return
    fi

