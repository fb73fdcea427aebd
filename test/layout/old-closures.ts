/**
 * V8 takes the assignment of a function literal to a property for the definition of a method, and allocates
 * the function in the old generation. There it keeps alive what it references, the call with all its objects,
 * until the next full collection. A function that is a variable or an argument first is allocated as usual.
 */

const ASSIGNED = new RegExp(
  String.raw`^\s+[\w.#?!\[\]]*[.\]][\w#]*\s*(?:\?\?|\|\||&&)?=\s*(?:async\s+)?` +
    String.raw`(?:\(.*\)[^=]*=>|\w+\s*=>|function\b)`,
);

/** The folders whose code runs for each call. */
const SERVER_FOLDERS = 'access|attribution|http|instance|limits|protocols|providers|relay|stored|wire';
const PATH_OF_A_CALL = new RegExp(`^(?:server/(?:${SERVER_FOLDERS})|db/(?:log|postgres))/`);

/** Once for a connection whose upload is refused, and once for a server. */
const EXCEPTIONS = ['server/http/lingering-close.ts', 'server/stored/due-loop.ts'];

/** The lines that assign a function literal to a property on the path of a call. */
export function oldClosures(path: string, text: string): string[] {
  if (!PATH_OF_A_CALL.test(path) || EXCEPTIONS.includes(path)) return [];
  return text
    .split('\n')
    .flatMap((line, index) =>
      ASSIGNED.test(line) ? [`${path}:${index + 1} assigns a function literal to a property`] : [],
    );
}
