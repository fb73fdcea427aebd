import { memberByEmail, type MemberRow, consumeTotpStep } from '#db/members/members.ts';
import { unseal } from '#db/secrets/seal.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { PasswordAttempt } from '#server/sign-in/password-throttle.ts';
import type { SignInStore } from '#server/sign-in/store.ts';
import { stepOf, TOTP_PURPOSE } from '#server/sign-in/totp.ts';

/** Verification of passwords and codes. Attempts are counted before they are checked. */

/** Verifies a password. An unknown email takes the same time and returns the same error. */
export async function verifyPassword(
  { anonymousPool: strangers, passwords, passwordThrottle }: SignInStore,
  { password, ...attempt }: PasswordAttempt & { password: string },
): Promise<MemberRow | ApiError> {
  const admitted = await passwordThrottle.admit(attempt);
  if (admitted instanceof ApiError) return admitted;
  const row = await memberByEmail(strangers, attempt.email);
  const isRight = await passwords.verify(row?.passwordHash ?? null, password);
  if (isRight instanceof ApiError) {
    // The password wasn't checked.
    await admitted.refund();
    return isRight;
  }
  if (!isRight || row === null) return new ApiError('invalid_credentials');
  await admitted.succeed();
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
