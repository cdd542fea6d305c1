import { Command, Option } from 'commander';
import { exitWith, formatOption, passphraseFileOption } from '../../setup/command-options.ts';
import type { KeyFlags } from './key-new.ts';
import type { SignFlags } from './sign.ts';

export function keyCommand(): Command {
  const group = new Command('key').description('create a key pair for signing');
  group
    .command('new')
    .description('create an Ed25519 key pair in minisign format')
    .argument('<file>', 'file to write the secret key to; the public key is written to FILE.pub')
    .option('--no-passphrase', 'do not encrypt the secret key')
    .addOption(passphraseFileOption())
    .addOption(formatOption())
    .addHelpText(
      'after',
      `
The passphrase comes from --passphrase-file, WAYBILL_KEY_PASSPHRASE or the
terminal. No file is overwritten. docs/signatures.md

Examples:
  waybill key new site.key
  waybill key new ci.key --no-passphrase`,
    )
    .action(async (file: string, options: KeyFlags) =>
      exitWith((await import('./key-new.ts')).newKey(file, options)),
    );
  return group;
}

export function signCommand(): Command {
  return new Command('sign')
    .description('sign the manifest of a bundle, which covers all of its files')
    .argument('<directory>', 'directory of the bundle')
    .addOption(new Option('--key <file>', 'secret key').makeOptionMandatory())
    .addOption(passphraseFileOption())
    .addOption(formatOption())
    .addHelpText(
      'after',
      `
Checks every file against the manifest, and writes manifest.json.minisig. A
missing manifest is created like waybill pack does. Missing digests are added.
The passphrase comes from --passphrase-file, WAYBILL_KEY_PASSPHRASE or the
terminal. See docs/signatures.md.

Examples:
  waybill sign ./site --key site.key
  minisign -Vm site/manifest.json -p site.key.pub`,
    )
    .action(async (directory: string, options: SignFlags) =>
      exitWith((await import('./sign.ts')).sign(directory, options)),
    );
}
