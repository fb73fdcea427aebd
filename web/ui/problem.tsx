import { ApiError } from '../lib/api/api.ts';
import { Button } from './button.tsx';
import { Copyable } from './copy.tsx';
import { Icon } from './icon.tsx';

/** An error panel: what failed, why, and what to do. */
export function Problem({
  error,
  title,
  onRetry,
}: {
  error: unknown;
  /** What failed, such as "Couldn’t load keys". */ title: string;
  onRetry?: () => void;
}) {
  const known = error instanceof ApiError ? error : null;
  return (
    <div role="alert" className="flex gap-3 rounded-lg border border-danger bg-danger-soft p-4">
      <Icon name="warning" className="mt-0.5 text-danger" />
      <div className="flex min-w-0 flex-col gap-1">
        <p className="font-medium text-danger">{title}</p>
        <p>{known?.message ?? 'An unexpected error occurred. Reload the page.'}</p>
        {known && (
          <p className="text-xs text-muted">
            {known.status > 0 && `Status ${known.status}, ${known.code}. `}
            {known.retryAfterS !== null && `Try again in ${known.retryAfterS} s. `}
            {known.requestId !== null && (
              <>
                Request <Copyable text={known.requestId} what="request ID" />
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

/** A form's error in one line. Errors of a field are shown at the field, see `fieldError`. */
export function FormProblem({
  error,
  fields = [],
}: {
  error: unknown;
  /** Fields that show their own errors. */ fields?: readonly string[];
}) {
  if (error === null || error === undefined) return null;
  if (fields.some((field) => fieldError(error, field) !== null)) return null;
  return (
    <p role="alert" className="text-danger">
      {error instanceof ApiError ? error.message : 'An unexpected error occurred. Reload the page.'}
      {error instanceof ApiError && error.retryAfterS !== null && ` Try again in ${error.retryAfterS} s.`}
    </p>
  );
}

/** The error of one field, including nested ones, or null. */
export function fieldError(error: unknown, name: string): string | null {
  return error instanceof ApiError && `${error.param}.`.startsWith(`${name}.`)
    ? error.message.replace(/^"[^"]*": /, '')
    : null;
}
