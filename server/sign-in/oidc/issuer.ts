import { reachOfHost } from '#db/addresses.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { checkBaseUrl, type Network } from '#server/upstreams/addresses.ts';

/** Requirements on all issuers of tokens: of members, and of workloads. Pure. */

/** Signatures that tokens may have: asymmetric ones alone, so that no public key can be used as a secret. */
export const SIGNATURES = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'Ed25519',
  'EdDSA',
];
/** How much the clocks of a provider and of this machine may differ. */
export const CLOCK_TOLERANCE_S = 30;
/** @throws {DecisionError} when requests may not be sent to the issuer. */
export function checkIssuer({ issuer, network }: { issuer: string; network: Network }): void {
  const url = new URL(issuer);
  const isPlain = url.protocol === 'http:' && reachOfHost(url.hostname) === 'private';
  if (url.protocol !== 'https:' && !isPlain)
    throw new DecisionError('invalid', 'The issuer must be an https URL such as https://login.example.com.');
  if (url.search !== '' || url.hash !== '' || url.username !== '' || url.password !== '')
    throw new DecisionError('invalid', 'The issuer must be a URL without user, query and fragment.');
  const fault = checkBaseUrl(issuer, network);
  if (fault !== null) throw new DecisionError('invalid', fault);
}
