import { type Digest, hexOf } from '../lib/digest.ts';
import { dateOf } from '../lib/instant.ts';
import { compareCodeUnits } from '../lib/paths.ts';
import { envelopeText } from '../signing/dsse.ts';
import { signatureFile, trustedCommentOf } from '../signing/signature.ts';
import {
  attestationName,
  checksumsName,
  checksumsSignatureName,
  checksumsText,
  digestInputs,
  type Generator,
  type GeneratorInput,
  lazyBytes,
  type PublicationFacts,
} from './generator.ts';

/*
 * Makes the outputs that `outputs.signature` asks for: a signature of the checksums, and a signed statement
 * about the publication.
 */

export const statementType = 'application/vnd.in-toto+json';
export const predicateType = 'urn:waybill:publication:1';

/**
 * Makes `SHA256SUMS.minisig`. It has the same timestamp as the bundle, so if the outputs are the same, the
 * signature is, too.
 */
export const signatureGenerator: Generator = {
  name: 'signature',
  version: 1,
  setting: 'signature',
  describe: async (input) => {
    const { secret } = required(input);
    const comment = trustedCommentOf(dateOf(input.bundle.created), checksumsName);
    const sums = checksumsText(input);
    return [
      {
        path: checksumsSignatureName,
        kind: 'signature',
        contentType: 'text/plain; charset=utf-8',
        inputs: digestInputs(sums, comment, secret.publicKey.id),
        open: lazyBytes(() => signatureFile(Buffer.from(sums), secret, comment)),
      },
    ];
  },
};

/**
 * Makes `attestation.json`, which is an in-toto statement in a DSSE envelope. It lists all other outputs with
 * their digests.
 */
export const attestationGenerator: Generator = {
  name: 'attestation',
  version: 1,
  setting: 'signature',
  describe: async (input) => {
    const { secret, ...facts } = required(input);
    const stable = { subjects: subjectsOf(input), bundle: bundleFacts(input, facts) };
    return [
      {
        path: attestationName,
        kind: 'attestation',
        contentType: 'application/json',
        // The run and the publisher are not inputs. A later run that changes nothing therefore keeps the
        // statement, which is from the run that published these outputs.
        inputs: digestInputs(JSON.stringify(stable), secret.publicKey.id),
        includesRunId: true,
        open: lazyBytes(() => envelopeText(statementType, Buffer.from(statementText(stable, facts)), secret)),
      },
    ];
  },
};

function required({ signing }: GeneratorInput): NonNullable<GeneratorInput['signing']> {
  if (signing === null) throw new TypeError('signed outputs need a key');
  return signing;
}

interface StatementInput {
  subjects: { name: string; digest: { sha256: string } }[];
  bundle: object;
}

function subjectsOf({ bundle, siblings }: GeneratorInput): StatementInput['subjects'] {
  return [...bundle.files, ...siblings]
    .map(({ path, digest }: { path: string; digest: Digest }) => ({
      name: path,
      digest: { sha256: hexOf(digest) },
    }))
    .sort((a, b) => compareCodeUnits(a.name, b.name));
}

function bundleFacts({ bundle }: GeneratorInput, { owner }: PublicationFacts): object {
  const { identity, created, manifestFile, signedBy = null, revision = null } = bundle;
  return {
    pipeline: owner.pipelineId,
    destination: owner.destinationId,
    source: { backend: identity.backend, id: identity.id, path: identity.path },
    created,
    manifest: { sha256: hexOf(manifestFile.digest) },
    signedBy,
    revision,
  };
}

function statementText(
  { subjects, bundle }: StatementInput,
  { runId, publisher, version }: PublicationFacts,
): string {
  const predicate = { ...bundle, publisher, run: { id: runId }, waybill: { version } };
  return JSON.stringify({
    _type: 'https://in-toto.io/Statement/v1',
    subject: subjects,
    predicateType,
    predicate,
  });
}
