import { Argument } from 'commander';
import type { Command } from '#db/command-line/command.ts';

/** `daybook completion bash|zsh|fish`: a script that completes commands, options and their choices. */

const SHELLS = ['bash', 'zsh', 'fish'] as const;
type Shell = (typeof SHELLS)[number];

/** @param load the program with all its commands. */
export function completionCommand(load: () => Promise<Command>): (program: Command) => void {
  return (program) => {
    program
      .command('completion')
      .description("print a script that completes commands and options: source it from the shell's settings")
      .addArgument(new Argument('<shell>', 'the shell').choices(SHELLS))
      .action(async (shell: Shell, _options: unknown, command: Command) => {
        command.surroundings.out(scriptOf(shell, wordsOf(await load())));
      });
  };
}

/** The words that may follow a command, by its path: `''`, `key`, `key check`. */
export type CompletionWords = ReadonlyMap<string, readonly string[]>;

export function wordsOf(program: Command): CompletionWords {
  const words = new Map<string, string[]>();
  const add = (command: Command, path: string): void => {
    const options = command.options.filter(({ hidden }) => !hidden).map(({ long }) => long ?? '');
    const choices = [...command.options, ...command.registeredArguments].flatMap(
      ({ argChoices }) => argChoices ?? [],
    );
    const names = command.commands.map((each) => each.name());
    words.set(path, [...new Set([...names, ...choices, ...options, '--help'])].filter(isPlain));
    for (const each of command.commands)
      add(each as Command, path === '' ? each.name() : `${path} ${each.name()}`);
  };
  add(program, '');
  return words;
}

/** Words that need no quotes in any shell. */
const isPlain = (word: string): boolean => /^[\w./:-]+$/.test(word);

function scriptOf(shell: Shell, words: CompletionWords): string {
  switch (shell) {
    case 'bash':
      return `${casesOf(words)}
_daybook() {
  local at='' index word
  for ((index = 1; index < COMP_CWORD; index++)); do
    word=\${COMP_WORDS[index]}
    if [ -n "$(_daybook_words "\${at:+$at }$word")" ]; then at="\${at:+$at }$word"; fi
  done
  COMPREPLY=($(compgen -W "$(_daybook_words "$at")" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _daybook daybook
`;
    case 'zsh':
      return `#compdef daybook
${casesOf(words)}
_daybook() {
  local at='' word
  for word in "\${(@)words[2,CURRENT-1]}"; do
    if [ -n "$(_daybook_words "\${at:+$at }$word")" ]; then at="\${at:+$at }$word"; fi
  done
  compadd -- \${(z)"$(_daybook_words "$at")"} || _files
}
compdef _daybook daybook
`;
    case 'fish':
      return `function __daybook_words
  switch "$argv[1]"
${lines(words, (path, list) => `    case '${path}'; string split ' ' '${list}'`)}
  end
end
function __daybook_complete
  set -l at ''
  for word in (commandline -opc)[2..]
    set -l next (string trim "$at $word")
    if test -n "$(__daybook_words $next)"; set at $next; end
  end
  __daybook_words $at
end
complete -c daybook -a '(__daybook_complete)'
`;
  }
}

const casesOf = (words: CompletionWords): string =>
  `_daybook_words() {
  case "$1" in
${lines(words, (path, list) => `    '${path}') echo '${list}' ;;`)}
  esac
}`;

const lines = (words: CompletionWords, line: (path: string, list: string) => string): string =>
  [...words].map(([path, list]) => line(path, list.join(' '))).join('\n');
