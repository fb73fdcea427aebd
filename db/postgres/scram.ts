import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto';

/** Postgres' own default. */
const SCRAM_ITERATIONS = 4096;
const SCRAM_SALT_BYTES = 16;

/**
 * The SCRAM verifier of a password, as Postgres stores it (RFC 5803). Computed here, so that a statement that
 * fails or is logged does not contain the password.
 * @param password printable ASCII.
 */
export function scramVerifier(password: string): string {
  const salt = randomBytes(SCRAM_SALT_BYTES);
  const salted = pbkdf2Sync(password, salt, SCRAM_ITERATIONS, 32, 'sha256');
  const keyed = (text: string): Buffer => createHmac('sha256', salted).update(text).digest();
  const stored = createHash('sha256').update(keyed('Client Key')).digest('base64');
  const server = keyed('Server Key').toString('base64');
  return `SCRAM-SHA-256$${SCRAM_ITERATIONS}:${salt.toString('base64')}$${stored}:${server}`;
}
