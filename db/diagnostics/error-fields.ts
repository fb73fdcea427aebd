import { ERROR_CAUSES_MAX, ERROR_MESSAGE_CHARACTERS_MAX, STACK_FRAMES_MAX } from '#db/diagnostics/bounds.ts';

/** An error in a log line: its class, its code and its message without secrets. */
export type LoggedError = {
  name: string;
  code?: string;
  message?: string;
  cause?: LoggedError;
  stack?: string[];
};

/**
 * The fields of a log line for an error. Its message is scrubbed of credentials, addresses with a password,
 * email addresses and quoted input; its causes follow, as far as they are bounded.
 */
export function errorFields(error: unknown): { error: LoggedError } {
  return { error: describeError(error, ERROR_CAUSES_MAX) };
}

/** The same with the frames of the stack, for a fault of the program itself. */
export function faultFields(error: unknown): { error: LoggedError } {
  const described = describeError(error, ERROR_CAUSES_MAX);
  if (error instanceof Error && error.stack !== undefined)
    described.stack = error.stack
      .split('\n')
      .filter((line) => /^\s+at /.test(line))
      .slice(0, STACK_FRAMES_MAX)
      .map((line) => line.trim());
  return { error: described };
}

/** The same in words, for the one line that a command ends with. */
export function errorLine(error: unknown): string {
  const { name, code, message, cause } = describeError(error, 1);
  const head = [name, code, message].filter((part) => part !== undefined).join(': ');
  return cause === undefined ? head : `${head} (${[cause.code, cause.message].filter(Boolean).join(': ')})`;
}

function describeError(error: unknown, causesMax: number): LoggedError {
  if (!(error instanceof Error)) return { name: error === null ? 'null' : typeof error };
  const described: LoggedError = { name: className(error) };
  const { code } = error as { code?: unknown };
  if (typeof code === 'string' || typeof code === 'number') described.code = String(code);
  const message = scrubMessage(error);
  if (message !== '') described.message = message;
  const cause = causeOf(error);
  if (cause !== undefined && causesMax > 0) described.cause = describeError(cause, causesMax - 1);
  return described;
}

/** The most specific name: many classes keep the name of the class that they extend. */
function className({ name, constructor }: Error): string {
  return name === 'Error' || name === 'error' ? constructor.name : name;
}

/** An error for several addresses of one host has no message of its own. */
function causeOf(error: Error): unknown {
  if (error.cause !== undefined && error.cause !== null) return error.cause;
  return error instanceof AggregateError ? (error.errors as unknown[])[0] : undefined;
}

/** The codes of PostgreSQL's errors about a value, whose messages quote the value. */
const DATA_EXCEPTION = /^22[\dA-Z]{3}$/;

function scrubMessage(error: Error): string {
  // Errors of the AI SDK quote the provider's reply.
  if (error.name.startsWith('AI_')) return '';
  const { code } = error as NodeJS.ErrnoException;
  const quotesInput = error instanceof SyntaxError || (typeof code === 'string' && DATA_EXCEPTION.test(code));
  const text = quotesInput ? error.message.replace(/["'`].*["'`]/s, '[input]') : error.message;
  return scrub(text);
}

/** Text on one line, bounded, without whatever looks like a secret or personal data. */
export function scrub(text: string): string {
  return (
    text
      // The patterns below look at no more than this.
      .slice(0, 4 * ERROR_MESSAGE_CHARACTERS_MAX)
      // oxlint-disable-next-line no-control-regex
      .replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, ' ')
      .replace(/\b([a-z][a-z0-9+.-]*):\/\/(?:[^\s"'@]*@)?([^\s/"'?#]*)[^\s"')]*/gi, '$1://$2')
      .replace(/\b(bearer|basic)\s+\S+/gi, '$1 [credential]')
      .replace(/\b(?:sk|pk|rk|dbk|gsk|hf|csk|key|xai|whsec)[-_][\w*.-]{8,}/gi, '[credential]')
      .replace(/[\w.+-]+@[\w-]+(?:\.[\w-]+)+/g, '[email]')
      .replace(/[\w+=-]{32,}/g, redactDense)
      .slice(0, ERROR_MESSAGE_CHARACTERS_MAX)
      .trim()
  );
}

const UUID = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i;

/** A long run with digits is a key or a digest; without digits it is an identifier of the program. */
const redactDense = (run: string): string => (/\d/.test(run) && !UUID.test(run) ? '[redacted]' : run);
