import { Secret, TOTP } from 'otpauth';

/** Time-based one-time passwords (RFC 6238) for authenticator apps. Pure but for the random secret. */

const PERIOD_S = 30;
/** Codes of the previous and next step are valid too: clocks drift, and people type slowly. */
const STEPS_ASIDE = 1;
/** Purpose of the sealed secrets. */
export const TOTP_PURPOSE = 'daybook totp';

const SECRET_BYTES = 20;

/** A new secret in base 32, for typing. */
export function createTotpSecret(): string {
  return new Secret({ size: SECRET_BYTES }).base32;
}

/** The URI of the QR code. */
export function totpUri(secret: string, email: string): string {
  return totp(secret, email).toString();
}

/** The step of a code, in periods since 1970; null: the code isn't valid now. */
export function stepOf(secret: string, code: string, nowMs: number): number | null {
  const delta = totp(secret, '').validate({ token: code, timestamp: nowMs, window: STEPS_ASIDE });
  return delta === null ? null : Math.floor(nowMs / 1_000 / PERIOD_S) + delta;
}

function totp(secret: string, label: string): TOTP {
  return new TOTP({
    issuer: 'Daybook',
    label,
    algorithm: 'SHA1',
    digits: 6,
    period: PERIOD_S,
    secret: Secret.fromBase32(secret),
  });
}
