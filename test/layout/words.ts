/**
 * Private words for which the field has a term. Identifiers are split at their capitals first, so
 * `readTold` and "told" are one finding. Each row: what is banned, and the standard term.
 */
export const BANNED: readonly (readonly [pattern: RegExp, instead: string])[] = [
  [/\b(?:told|tells?|telling|untold)\b/, 'report, return, say, show'],
  [/\b(?:somebody|nobody|whoever|whom|anybody|everybody)\b/, 'name the actor'],
  [/\b(?:unsaid|unsayable)\b/, 'unsupported'],
  [/\b(?:put|puts|putting) (?:down|aside)\b/, 'record, park'],
  [/\b(?:take|takes|taken|taking|took) (?:in|up|away)\b/, 'apply, resume, remove'],
  [/\banew\b/, 'again, reset'],
  [/\bfor good\b/, 'permanently'],
  [/\bin all[.,;:)]/, 'total'],
  [/\bof it\b/, 'name the object'],
  [/\bone may\b/, 'name the actor'],
  [/\b(?:is|are) none\b/, 'does not exist, is not set'],
  [/\bgets about\b/, 'leaks'],
  [/\bleft out\b/, 'excluded, skipped, circuit open'],
  [/\bno trouble\b/, 'healthy'],
  [/\bfares?\b/, 'health'],
  [/\b(?:speak|speaks|spoken|speaking)\b/, 'use, implement (a protocol)'],
  [/\bthe house\b/, 'the repository, the layout'],
  [/\b(?:story|stories)\b/, 'request detail'],
  [/\bgood\b/, 'valid, active, healthy'],
  [/\bbad(?! request\b| gateway\b)\b/, 'invalid'],
  [/\bdesks?\b/, 'admission controller, or the name of the component'],
  [/\berrand\b/, 'lease client'],
  [/\bbells?\b/, 'auto-reset event'],
  [/\bseats?\b/, 'instance session'],
  [/\b(?:revival|revives?|revived)\b/, 'health probe'],
  [/\btries\b/, 'attempts'],
  [/\btried again\b/, 'retried'],
  [/\b(?:eject|ejects|ejected|ejection|ejections)\b/, 'circuit breaker: open'],
  [/\b(?:rescue|rescues|rescued)\b/, 'recovery'],
  [/\b(?:arrival|arrivals|arrive|arrives|arrived)\b/, 'registration, sign up; received'],
  [/\be-mails?\b/, 'email'],
  [/\btelephone\b/, 'authenticator app'],
  [/\bhold still\b/, 'pause'],
  [/\bin turn\b/, 'serialized'],
  [/\bwaiters?\b/, 'condition variable'],
  [/\bwhat (?:is|was|are|were|has|had|it|they|he|she|comes|came|goes|went)\b/, 'use a noun'],
];

/** Where a banned word is the standard one after all. The reason stands beside each. */
export const EXCEPTIONS: readonly (readonly [path: string, text: RegExp, reason: string])[] = [
  ['db/postgres/embedded/run-as.ts', /'nobody'/, 'the Unix user of that name'],
];

/** A line with a banned word: `path:line: word (use …)`. */
export function bannedWords(path: string, text: string): string[] {
  return text.split('\n').flatMap((line, index) => {
    const words = line
      .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
      .replaceAll('_', ' ')
      .toLowerCase();
    return BANNED.flatMap(([pattern, instead]) => {
      const found = pattern.exec(words);
      if (!found) return [];
      if (EXCEPTIONS.some(([where, what]) => path.startsWith(where) && what.test(line))) return [];
      return [`${path}:${index + 1}: "${found[0]}" (${instead})`];
    });
  });
}
