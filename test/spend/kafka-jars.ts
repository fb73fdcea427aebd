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
const JARS = path.join(CACHE, 'jars');
const FETCH_MAX_MS = 240_000;

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
 * Fetches the jars of Kafka from Maven Central, once for all runs of this user.
 * @returns null, or why this machine can't run a broker.
 */
export async function prepareKafka(): Promise<string | null> {
  const java = await run('java', ['-version']).catch(() => null);
  if (java === null) return 'Java is not installed';
  if (existsSync(JARS)) return null;
  try {
    await fetchJars();
    return null;
  } catch (error) {
    // Another run was faster.
    if (existsSync(JARS)) return null;
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    return isMissing
      ? 'Maven is not installed'
      : `Maven could not fetch Kafka: ${String(error).slice(0, 500)}`;
  }
}

/** Copies them beside their place first, so that a killed run leaves no half of them. */
async function fetchJars(): Promise<void> {
  await mkdir(CACHE, { recursive: true });
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
