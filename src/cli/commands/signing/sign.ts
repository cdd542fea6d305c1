import { existsSync } from 'node:fs';
import path from 'node:path';
import { manifestName, signatureName } from '../../../core/bundle/manifest.ts';
import { packDirectory } from '../../../core/bundle/pack/pack-directory.ts';
import { formatSize } from '../../../core/lib/settings/units.ts';
import { makeOutput, plural } from '../../output/output.ts';
import { progressBar } from '../../output/progress.ts';
import { endedBySignal } from '../../process/stop-signal.ts';
import type { CommonOptions } from '../../setup/command-options.ts';
import { manifestSigner, type PassphraseFlags } from '../../setup/signing-key.ts';
import { writeFile } from '../../setup/write-file.ts';

export interface SignFlags extends Omit<CommonOptions, 'verbose'>, PassphraseFlags {
  key: string;
}

/** `waybill sign`. Checks every file before it writes anything. */
export async function sign(directory: string, flags: SignFlags): Promise<number> {
  const output = makeOutput({ json: flags.format === 'json', color: flags.color });
  const bar = progressBar(!output.isJson);
  return endedBySignal(async () => {
    try {
      const { keyId, sign: signer } = await manifestSigner(flags.key, flags);
      const manifest = path.join(directory, manifestName);
      const signature = path.join(directory, signatureName);
      const hadManifest = existsSync(manifest);
      const bundle = await packDirectory(directory, { sign: signer, onBytes: bar.onBytes });
      if (bundle.isNew) await writeFile(manifest, [bundle.manifest]);
      await writeFile(signature, [bundle.signature ?? Buffer.alloc(0)]);
      bar.stop();
      const { isNew, files, bytes, warnings } = bundle;
      if (output.isJson) {
        const written = { signature, manifest: isNew ? manifest : null };
        output.json('sign', { directory, keyId, written, files, bytes, warnings });
        return 0;
      }
      for (const warning of warnings) output.warn(warning);
      if (isNew) output.note(hadManifest ? `added the missing digests to ${manifest}` : `made ${manifest}`);
      const amount = `${plural(files, 'file')}, ${formatSize(bytes)}`;
      output.data(`${output.style.green('signed')}  ${signature}  ${amount}  key ${keyId}`);
      return 0;
    } finally {
      bar.stop();
    }
  });
}
