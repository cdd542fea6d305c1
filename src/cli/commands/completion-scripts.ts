/*
 * Each script asks `waybill completion words` with the words up to the cursor, so that it knows what the
 * installed version knows. Where that says nothing, the shell completes names of files.
 */

const bash = `_waybill() {
  local line word words=()
  COMPREPLY=()
  # bash takes the "=" between an option and its value for a word of its own.
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD}"; do
    [[ $word == = ]] || words+=("$word")
  done
  [[ $word == = ]] && words+=("")
  while IFS=$'\\t' read -r line _; do
    COMPREPLY+=("$line")
  done < <(waybill completion words -- "\${words[@]}" 2>/dev/null)
}
complete -o default -o bashdefault -F _waybill waybill
`;

const zsh = `#compdef waybill
_waybill() {
  local -a found
  local word about
  while IFS=$'\\t' read -r word about; do
    found+=("\${word//:/\\\\:}:$about")
  done < <(waybill completion words -- "\${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( \${#found} )); then _describe waybill found; else _files; fi
}
compdef _waybill waybill
`;

const fish = `function __waybill_words
    set -l words (commandline -opc)[2..] (commandline -ct)
    waybill completion words -- $words 2>/dev/null
end
function __waybill_has_words
    set -l found (__waybill_words)
    test -n "$found"
end
complete -c waybill -e
complete -c waybill -n __waybill_has_words -f -a '(__waybill_words)'
`;

const scripts: Readonly<Record<string, string>> = { bash, zsh, fish };

/** `waybill completion SHELL`. */
export async function printScript(shell: string): Promise<number> {
  process.stdout.write(scripts[shell] ?? '');
  return 0;
}
