import { ApiError } from '../lib/api.ts';
import { Button } from './button.tsx';
import { Copyable } from './copy.tsx';
import { Icon } from './icon.tsx';

/** What went wrong, why, and what to do: for whatever a page could not show or do. */
export function Problem({
  error,
  title,
  onRetry,
}: {
  error: unknown;
  /** What was to be done: "The keys could not be loaded". */ title: string;
  onRetry?: () => void;
}) {
  const known = error instanceof ApiError ? error : null;
  return (
    <div role="alert" className="flex gap-3 rounded-lg border border-bad bg-bad-soft p-4">
      <Icon name="warning" className="mt-0.5 text-bad" />
      <div className="flex min-w-0 flex-col gap-1">
        <p className="font-medium text-bad">{title}</p>
        <p>{known?.message ?? 'Something is wrong with this page. Loading it again may help.'}</p>
        {known && (
          <p className="text-xs text-muted">
            {known.status > 0 && `Status ${known.status}, ${known.code}. `}
            {known.retryAfterS !== null && `Try again in ${known.retryAfterS} s. `}
            {known.requestId !== null && (
              <>
                Request <Copyable text={known.requestId} what="the id of the request" />
              </>
            )}
          </p>
        )}
        {onRetry && (
          <div className="mt-1">
            <Button icon="refresh" onClick={onRetry}>
              Try again
            </Button>
          </div>
        )}
      </div>
    </div>
  );
}

/** The same in one line, beneath a form. Errors of a single field stand at the field: see `fieldError`. */
export function FormProblem({
  error,
  fields = [],
}: {
  error: unknown;
  /** Those that show their own. */ fields?: readonly string[];
}) {
  if (error === null || error === undefined) return null;
  if (fields.some((field) => fieldError(error, field) !== null)) return null;
  return (
    <p role="alert" className="text-bad">
      {error instanceof ApiError ? error.message : 'Something went wrong in this page. Load it again.'}
      {error instanceof ApiError && error.retryAfterS !== null && ` Try again in ${error.retryAfterS} s.`}
    </p>
  );
}

/** What is wrong with one field of a form, or a part of it; null where it is something else. */
export function fieldError(error: unknown, name: string): string | null {
  return error instanceof ApiError && `${error.param}.`.startsWith(`${name}.`)
    ? error.message.replace(/^"[^"]*": /, '')
    : null;
}
