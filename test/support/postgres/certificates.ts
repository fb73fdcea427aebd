import { execFileSync } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';

export type ServerCertificate = { certificate: string; key: string };

/** Certificates of a PostgreSQL server by OpenSSL; those of CAs as the paths of their files. */
export async function makeCertificates(folder: string): Promise<{
  ca: string;
  otherCa: string;
  /** For `localhost`. */
  valid: ServerCertificate;
  wrongName: ServerCertificate;
  expired: ServerCertificate;
}> {
  const at = (name: string): string => path.join(folder, name);
  const openssl = (...args: string[]): void => {
    execFileSync('openssl', args, { stdio: 'ignore' });
  };
  const makeCa = (name: string): void =>
    openssl(
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'],
      ...['-subj', `/CN=${name}`, '-days', '2', '-keyout', at(`${name}.key`), '-out', at(`${name}.pem`)],
    );
  const issue = async (name: string, host: string, days: string): Promise<ServerCertificate> => {
    await writeFile(at(`${name}.ext`), `subjectAltName=DNS:${host}\n`);
    openssl(
      ...['req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj', `/CN=${host}`],
      ...['-keyout', at(`${name}.key`), '-out', at(`${name}.csr`)],
    );
    openssl(
      ...['x509', '-req', '-in', at(`${name}.csr`), '-CA', at('ca.pem'), '-CAkey', at('ca.key')],
      ...['-CAcreateserial', '-extfile', at(`${name}.ext`), '-days', days, '-out', at(`${name}.pem`)],
    );
    return {
      certificate: await readFile(at(`${name}.pem`), 'utf8'),
      key: await readFile(at(`${name}.key`), 'utf8'),
    };
  };
  makeCa('ca');
  makeCa('other-ca');
  return {
    ca: at('ca.pem'),
    otherCa: at('other-ca.pem'),
    valid: await issue('valid', 'localhost', '2'),
    wrongName: await issue('wrong-name', 'db.example', '2'),
    // Its end is before its beginning, yesterday.
    expired: await issue('expired', 'localhost', '-1'),
  };
}
