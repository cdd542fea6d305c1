import { digestOf } from '../lib/digest.ts';
import type { ErrorCode } from '../lib/error-codes.ts';
import { type Finding, finding, WaybillError } from '../lib/errors.ts';
import type { KeyId } from '../signing/minisign-text.ts';
import { parseSignature, signatureFault } from '../signing/signature.ts';
import { type SignaturePolicy, trustedKeys } from '../signing/trusted-keys.ts';
import { checkBody } from '../storage/body.ts';
import type { Body } from '../storage/storage.ts';
import { type Manifest, manifestName, parseManifest, signatureName } from './manifest.ts';
import { invalidBundle, type SourceBundle } from './source-bundle.ts';

/*
 * Checks the signature of a bundle against the keys that its pipeline trusts. This is done before an upload
 * is accepted, by `validate`, and before each publication.
 */

/** A manifest as bytes and in parsed form, with its signature. */
interface SignedManifest {
  bytes: Uint8Array;
  manifest: Pick<Manifest, 'files'>;
  /** The signature file; null if the manifest is not signed. */
  signature: Uint8Array | null;
}

/**
 * Returns the id of the trusted key that signed the manifest. Returns null if it is not signed and the policy
 * allows that. Throws `signature_missing`, `signature_invalid` or `signing_key_untrusted`, and
 * `invalid_bundle` if the manifest lacks a digest, because the signature would not cover that file. Messages
 * refer to the bundle as `name`.
 */
export function checkSignature(
  policy: SignaturePolicy,
  { bytes, manifest, signature }: SignedManifest,
  name: string,
): KeyId | null {
  if (signature === null) {
    if (!policy.required) return null;
    const message = `is missing, and the pipeline requires it`;
    throw untrusted('signature_missing', name, message, 'sign it with waybill sign, or push --sign KEY');
  }
  const parsed = parseSignature(signature);
  if (!parsed.ok)
    throw untrusted('signature_invalid', name, `is not a signature of minisign: ${parsed.reason}`, signHint);
  const { keyId } = parsed.value;
  const key = trustedKeys(policy).get(keyId);
  if (key === undefined) {
    const hint = 'sign it with a key of signatures.keys, or add this key there';
    throw untrusted('signing_key_untrusted', name, `is by key ${keyId}, which is not trusted`, hint);
  }
  const fault = signatureFault(bytes, parsed.value, key);
  if (fault !== null)
    throw untrusted('signature_invalid', name, `does not fit, by key ${keyId}: ${fault}`, signHint);
  requireDigests(manifest, name);
  return keyId;
}

const signHint = 'sign the manifest again; if the change was not intended, find its cause';

/**
 * Checks the signature of a bundle that is about to be published. Returns the bundle, along with its signer.
 * Only the files of the signed manifest may be published. Throws any error from `checkSignature`, and
 * `body_mismatch` if the manifest has changed since the bundle was found.
 */
export async function requireTrusted(
  bundle: SourceBundle,
  policy: SignaturePolicy | null | undefined,
): Promise<SourceBundle> {
  if (policy === null || policy === undefined) return bundle;
  const { manifestFile, signatureFile = null, files } = bundle;
  const bytes = await contentOf(manifestFile.body);
  const read = { digest: digestOf(bytes), size: bytes.byteLength };
  checkBody(manifestName, read, { digest: manifestFile.digest, size: manifestFile.body.size });
  const name = bundle.path === '.' ? 'the bundle' : `"${bundle.path}"`;
  const { manifest, findings } = parseManifest(bytes, manifestName);
  if (manifest === null) throw invalidBundle(name, findings);
  const signature = signatureFile === null ? null : await contentOf(signatureFile.body);
  const signedBy = checkSignature(policy, { bytes, manifest, signature }, name);
  if (signedBy === null) return { ...bundle, warnings: [...bundle.warnings, unsigned(bundle.path)] };
  const digests = new Map<string, string | null>(files.map(({ path, digest }) => [path, digest]));
  const other = manifest.files.find(({ path, digest }) => digests.get(path) !== digest);
  if (other !== undefined || files.length !== manifest.files.length)
    throw untrusted('signature_invalid', name, 'covers other files than these', 'upload the bundle again');
  return { ...bundle, signedBy };
}

function requireDigests({ files }: Pick<Manifest, 'files'>, name: string): void {
  const findings = files.flatMap(({ path, digest }, index): Finding[] =>
    digest === null
      ? [
          finding('error', 'digest_missing', 'has no digest, so the signature does not cover it', {
            file: path,
            pointer: `/files/${index}`,
          }),
        ]
      : [],
  );
  if (findings.length > 0)
    throw invalidBundle(name, findings, { hint: 'sign it with waybill sign, which adds the digests' });
}

function unsigned(path: string): Finding {
  const message = 'is not signed; the pipeline accepts it because of signatures.required: false';
  return finding('warning', 'unsigned_bundle', message, { file: path });
}

function untrusted(code: ErrorCode, name: string, fact: string, hint: string): WaybillError {
  const findings = [finding('error', code, fact, { file: signatureName })];
  return new WaybillError(code, `${name} is not trusted: ${signatureName} ${fact}`, { hint, findings });
}

async function contentOf(body: Body): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body.open()) chunks.push(chunk);
  return Buffer.concat(chunks);
}
