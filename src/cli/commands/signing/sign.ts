import { existsSync } from 'node:fs';
import path from 'node:path';
import { manifestName, signatureName } from '../../../core/bundle/manifest.ts';
import { packDirectory } from '../../../core/bundle/pack/pack-directory.ts';
import { formatSize } from '../../../core/lib/settings/sizes-and-durations.ts';
import { plural } from '../../../core/lib/text.ts';
import { progressBar } from '../../output/progress.ts';
import type { Io, OptionsFor } from '../../setup/command.ts';
import { manifestSigner } from '../../setup/signing-key.ts';
import { writeFile } from '../../setup/write-file.ts';
import type { signCommand } from './commands.ts';

type SignFlags = OptionsFor<typeof signCommand>;

/** Implements `waybill sign`. All files are checked before anything is written. */
export async function sign(flags: SignFlags, { output }: Io): Promise<number> {
  const { directory } = flags;
  const bar = progressBar(!output.isJson);
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
    const written = { signature, manifest: isNew ? manifest : null };
    output.result('sign', { directory, keyId, written, files, bytes, warnings }, () => {
      if (isNew) output.note(hadManifest ? `added the missing digests to ${manifest}` : `made ${manifest}`);
      const amount = `${plural(files, 'file')}, ${formatSize(bytes)}`;
      output.data(`${output.style.green('signed')}  ${signature}  ${amount}  key ${keyId}`);
    });
    return 0;
  } finally {
    bar.stop();
  }
}
