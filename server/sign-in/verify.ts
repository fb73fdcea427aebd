import { memberByEmail, type MemberRow, consumeTotpStep } from '#db/members/members.ts';
import { unseal } from '#db/secrets/seal.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { SignInStore } from '#server/sign-in/store.ts';
import { stepOf, TOTP_PURPOSE } from '#server/sign-in/totp.ts';

/** Verification of passwords and codes. Attempts are counted before they are checked. */

/** Verifies a password. An unknown email takes the same time and returns the same error. */
export async function verifyPassword(
  { anonymousPool: strangers, passwords, throttle: attempts }: SignInStore,
  { email, password, network }: { email: string; password: string; network: string },
): Promise<MemberRow | ApiError> {
  const refused =
    (await attempts.count('passwords', network)) ?? (await attempts.count('password', email, network));
  if (refused) return refused;
  const row = await memberByEmail(strangers, email);
  const isRight = await passwords.verify(row?.passwordHash ?? null, password);
  if (isRight instanceof ApiError) {
    // The password wasn't checked.
    await Promise.all([attempts.refund('passwords', network), attempts.refund('password', email, network)]);
    return isRight;
  }
  if (!isRight || row === null) return new ApiError('invalid_credentials');
  await Promise.all([attempts.refund('passwords', network), attempts.reset('password', email, network)]);
  return row;
}

/** Verifies a code if two-factor authentication is on; each code works once. */
export async function verifyCode(
  { pool, throttle: attempts }: SignInStore,
  pepper: Buffer,
  { id, sealedTotp }: MemberRow,
  code: string | undefined,
  nowMs: number,
): Promise<ApiError | null> {
  if (sealedTotp === null) return null;
  if (code === undefined) return new ApiError('totp_required');
  const refused = await attempts.count('code', id);
  if (refused) return refused;
  const step = stepOf(unseal(pepper, TOTP_PURPOSE, id, sealedTotp), code, nowMs);
  if (step === null || !(await consumeTotpStep(pool, id, step))) return new ApiError('invalid_totp_code');
  await attempts.reset('code', id);
  return null;
}
