import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

const VERSION = '4.1.0';
/** Outside of the repository, so that clean clones share them. */
const CACHE = path.join(
  process.env['XDG_CACHE_HOME'] ?? path.join(homedir(), '.cache'),
  `daybook-test/kafka-${VERSION}`,
);
/** `KAFKA_HOME` names an installation of Kafka in place of the fetched jars. */
const HOME = process.env['KAFKA_HOME'];
const JARS = HOME === undefined ? path.join(CACHE, 'jars') : path.join(HOME, 'libs');
const FETCH_MAX_MS = 240_000;
const LOOK_MAX_MS = 10_000;

const PROJECT = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>daybook.test</groupId><artifactId>kafka</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>${VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId>
      <version>2.24.3</version>
    </dependency>
  </dependencies>
</project>`;

/** The class path of a Kafka broker. */
export const CLASS_PATH = path.join(JARS, '*');

/**
 * Looks for Java, OpenSSL and the jars of Kafka, without the network.
 * @returns null, or why this machine can't run a broker and how it could.
 */
export async function missingForKafka(): Promise<string | null> {
  const answers = (program: string, argument: string): Promise<boolean> =>
    run(program, [argument], { timeout: LOOK_MAX_MS }).then(
      () => true,
      () => false,
    );
  if (!(await answers('java', '-version'))) return 'Java is not installed';
  if (!(await answers('openssl', 'version'))) return 'OpenSSL is not installed';
  if (existsSync(JARS)) return null;
  return `${JARS} does not exist: set KAFKA_HOME, or run \`npm run chaos -- kafka\`, which needs Maven`;
}

/**
 * Fetches the jars of Kafka from Maven Central where they are missing, once for all runs of this user.
 * @throws an error of Maven, or ENOENT where it isn't installed.
 */
export async function fetchKafka(): Promise<void> {
  if (existsSync(JARS) || HOME !== undefined) return;
  await mkdir(CACHE, { recursive: true });
  // Beside their place first, so that a killed run leaves no half of them.
  const directory = await mkdtemp(path.join(CACHE, 'fetch-'));
  try {
    await writeFile(path.join(directory, 'pom.xml'), PROJECT);
    const goal = ['dependency:copy-dependencies', `-DoutputDirectory=${path.join(directory, 'jars')}`];
    await run('mvn', ['--quiet', '--batch-mode', ...goal], { cwd: directory, timeout: FETCH_MAX_MS });
    await rename(path.join(directory, 'jars'), JARS);
  } finally {
    await rm(directory, { recursive: true });
  }
}
