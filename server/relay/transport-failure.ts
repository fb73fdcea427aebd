import { errors } from 'undici';
import type { EndReason } from '#db/events/endings.ts';
import type { ErrorCode } from '#server/errors/api-error.ts';
import type { FailureCause } from '#server/relay/failure.ts';

/**
 * What a broken exchange means before any part of a reply had come: for the client, for the log, and for the
 * next try.
 */
export function transportFailure(error: unknown): [ErrorCode, EndReason, FailureCause] {
  if (error instanceof errors.ConnectTimeoutError) return ['upstream_timeout', 'timed_out', 'timed_out'];
  const code = (error as NodeJS.ErrnoException | null)?.code ?? '';
  return UNREACHABLE.has(code)
    ? ['upstream_unreachable', 'upstream_unreachable', 'unreachable']
    : ['upstream_error', 'upstream_disconnected', 'cut'];
}

const UNREACHABLE = new Set([
  'address_refused',
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EADDRNOTAVAIL',
  'EMFILE',
  'ETIMEDOUT',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'CERT_HAS_EXPIRED',
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
]);
