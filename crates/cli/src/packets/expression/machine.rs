//! The classic BPF machine: an accumulator, an index register, 16 words of memory, and jumps that only lead forward, so
//! that every program ends (McCanne and Jacobson, USENIX 1993; Linux, Documentation/networking/filter.rst).
//!
//! A load beyond the packet's end, a division by zero and an instruction that there is not end the program with 0: no match.

/// Instructions of a program at most, as in the kernel (BPF_MAXINSNS).
const INSTRUCTIONS_MAX: usize = 4096;
const MEMORY_WORDS: usize = 16;

/// Instruction classes.
const LD: u16 = 0;
const LDX: u16 = 1;
const ST: u16 = 2;
const STX: u16 = 3;
const ALU: u16 = 4;
const JMP: u16 = 5;
const RET: u16 = 6;

/// The bit that has arithmetic and jumps take the index register instead of the constant.
const SOURCE_X: u16 = 8;

#[derive(Clone, Copy, Debug)]
struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    k: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Program {
    instructions: Vec<Instruction>,
}

/// What a running program has.
struct Registers<'a> {
    a: u32,
    x: u32,
    memory: [u32; MEMORY_WORDS],
    packet: &'a [u8],
}

impl Program {
    /// Reads what `tcpdump -ddd` prints: the number of instructions, then one a line.
    pub(super) fn parse(listing: &str) -> Result<Program, String> {
        let mut lines = listing.lines();
        let count: usize = lines.next().and_then(|line| line.trim().parse().ok()).ok_or("it begins with no number")?;
        if count > INSTRUCTIONS_MAX {
            return Err(format!("{count} instructions; at most {INSTRUCTIONS_MAX} are run"));
        }
        let instructions: Option<Vec<Instruction>> = lines.take(count).map(instruction).collect();
        let instructions = instructions.ok_or("a line is no instruction")?;
        match instructions.last() {
            Some(last) if instructions.len() == count && last.code & 7 == RET => Ok(Program { instructions }),
            _ => Err("it is cut off".to_owned()),
        }
    }

    /// What the program returns for a packet: how many bytes of it are wanted, 0 for no match.
    pub(super) fn run(&self, packet: &[u8]) -> u32 {
        let mut registers = Registers { a: 0, x: 0, memory: [0; MEMORY_WORDS], packet };
        let mut at = 0;
        while let Some(instruction) = self.instructions.get(at) {
            at += 1;
            match instruction.code & 7 {
                RET => return registers.returned(*instruction),
                JMP => at += registers.jump(*instruction),
                _ => match registers.step(*instruction) {
                    Some(()) => {}
                    None => return 0,
                },
            }
        }
        0
    }
}

fn instruction(line: &str) -> Option<Instruction> {
    let mut words = line.split_ascii_whitespace();
    let mut word = || words.next()?.parse::<u32>().ok();
    let (code, if_true, if_false, k) = (word()?, word()?, word()?, word()?);
    Some(Instruction {
        code: code.try_into().ok()?,
        if_true: if_true.try_into().ok()?,
        if_false: if_false.try_into().ok()?,
        k,
    })
}

impl Registers<'_> {
    fn returned(&self, instruction: Instruction) -> u32 {
        match instruction.code & 0x18 {
            0x08 => self.x,
            0x10 => self.a,
            _ => instruction.k,
        }
    }

    /// How many instructions are passed over.
    fn jump(&self, instruction: Instruction) -> usize {
        let operand = if instruction.code & SOURCE_X != 0 { self.x } else { instruction.k };
        let holds = match instruction.code & 0xf0 {
            0x10 => self.a == operand,
            0x20 => self.a > operand,
            0x30 => self.a >= operand,
            0x40 => self.a & operand != 0,
            // Always; a jump that is none leads behind the end.
            0x00 => return instruction.k as usize,
            _ => return usize::MAX >> 1,
        };
        usize::from(if holds { instruction.if_true } else { instruction.if_false })
    }

    /// Everything that neither jumps nor returns.
    fn step(&mut self, instruction: Instruction) -> Option<()> {
        let k = instruction.k;
        match instruction.code & 7 {
            LD => self.a = self.load(instruction)?,
            // ldxb 4 * ([k] & 0xf): the length of an IPv4 header.
            LDX if instruction.code & 0xe0 == 0xa0 => self.x = 4 * (self.byte(k)? & 0xf),
            LDX => self.x = self.load(instruction)?,
            ST => *self.memory.get_mut(k as usize)? = self.a,
            STX => *self.memory.get_mut(k as usize)? = self.x,
            ALU => self.a = self.computed(instruction)?,
            _ if instruction.code & 0x80 != 0 => self.a = self.x,
            _ => self.x = self.a,
        }
        Some(())
    }

    fn load(&self, instruction: Instruction) -> Option<u32> {
        let k = instruction.k;
        let at = match instruction.code & 0xe0 {
            0x00 => return Some(k),
            0x20 => k,
            0x40 => k.checked_add(self.x)?,
            0x60 => return self.memory.get(k as usize).copied(),
            0x80 => return u32::try_from(self.packet.len()).ok(),
            _ => return None,
        };
        match instruction.code & 0x18 {
            0x00 => self.bytes(at).map(u32::from_be_bytes),
            0x08 => self.bytes(at).map(|bytes| u16::from_be_bytes(bytes).into()),
            0x10 => self.byte(at),
            _ => None,
        }
    }

    fn bytes<const N: usize>(&self, at: u32) -> Option<[u8; N]> {
        self.packet.get(at as usize..)?.first_chunk().copied()
    }

    fn byte(&self, at: u32) -> Option<u32> {
        self.packet.get(at as usize).map(|byte| (*byte).into())
    }

    fn computed(&self, instruction: Instruction) -> Option<u32> {
        let (a, operand) = (self.a, if instruction.code & SOURCE_X != 0 { self.x } else { instruction.k });
        match instruction.code & 0xf0 {
            0x00 => Some(a.wrapping_add(operand)),
            0x10 => Some(a.wrapping_sub(operand)),
            0x20 => Some(a.wrapping_mul(operand)),
            0x30 => a.checked_div(operand),
            0x40 => Some(a | operand),
            0x50 => Some(a & operand),
            0x60 => Some(a.checked_shl(operand).unwrap_or(0)),
            0x70 => Some(a.checked_shr(operand).unwrap_or(0)),
            0x80 => Some(a.wrapping_neg()),
            0x90 => a.checked_rem(operand),
            0xa0 => Some(a ^ operand),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_program_is_run_as_it_is_written() {
        // tcpdump -y EN10MB -ddd 'ip proto 17'
        let program =
            Program::parse("6\n40 0 0 12\n21 0 3 2048\n48 0 0 23\n21 0 1 17\n6 0 0 262144\n6 0 0 0\n").unwrap();
        let mut packet = [0; 60];
        packet[12] = 8;
        packet[23] = 17;
        assert_eq!((program.run(&packet), program.run(&packet[..23]), program.run(&[0; 60])), (262_144, 0, 0));
    }

    #[test]
    fn arithmetic_memory_and_indirect_loads() {
        // a = 4 * (p[0] & 0xf); a = p[a + 1] / 3; m[2] = a; a = 0; a = m[2] << 40 is 0; returns x = 7.
        let listing = "9\n177 0 0 0\n80 0 0 1\n52 0 0 3\n2 0 0 2\n0 0 0 0\n96 0 0 2\n7 0 0 0\n100 0 0 40\n14 0 0 0\n";
        assert_eq!(Program::parse(listing).unwrap().run(&[0x41, 9, 9, 9, 9, 21]), 7);
    }

    #[test]
    fn what_is_no_program_is_refused() {
        for bad in ["", "x", "5000\n", "2\n6 0 0 0\n", "1\n40 0 0 12\n", "1\n6 0 0\n", "1\n6 256 0 0\n"] {
            assert!(Program::parse(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        /// Whatever the program and the packet, it ends, and nothing is read that is not there.
        #[test]
        fn every_program_ends(
            code in prop::collection::vec((any::<u16>(), any::<u8>(), any::<u8>(), any::<u32>()), 0..50),
            packet in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let instructions = code.into_iter();
            let instructions = instructions.map(|(code, if_true, if_false, k)| Instruction { code, if_true, if_false, k });
            Program { instructions: instructions.collect() }.run(&packet);
        }
    }
}
