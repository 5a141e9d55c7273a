//! Chunks as HDF5 2.0 and the Blosc2 plugin wrote them, for the filters that have no writer here.
//!
//! Each is one chunk of `count` unsigned integers, the `i`th of which is [`Numbers::value`] of `i`,
//! cut to `bits` and moved there. They were taken with `read_direct_chunk` of h5py 3.16.

use super::{FilterDescription, Pipeline};
use std::ops::Range;

/// How the numbers of a chunk go on.
#[derive(Debug, Clone, Copy)]
pub(super) enum Numbers {
    Curve,
    Sparse,
    Noise,
    Steps,
    Even,
}

impl Numbers {
    fn value(self, i: u64) -> u64 {
        match self {
            Self::Curve => i * i / 5 % 251,
            Self::Sparse if i.is_multiple_of(50) => i % 13,
            Self::Sparse => 0,
            Self::Noise => ((i * 2_654_435_761) & 0xffff_ffff) >> 13,
            Self::Steps => i / 40 * 3,
            Self::Even => 7,
        }
    }
}

/// A stored chunk and what it must decode to.
#[derive(Debug)]
pub(super) struct Real {
    filter: u32,
    values: &'static [u32],
    kind: Numbers,
    /// Bytes of a number.
    width: usize,
    big_endian: bool,
    bits: Range<u32>,
    count: u64,
    /// In hexadecimal.
    stored: &'static str,
}

impl Real {
    pub(super) fn pipeline(&self) -> Pipeline {
        let values = self.values.to_vec();
        let filter = FilterDescription {
            id: self.filter,
            values,
        };
        Pipeline::new(&[filter], self.count as usize * self.width).unwrap()
    }

    /// Whether it can be decoded here: Miri cannot call C, as zlib and zstd in Blosc2 are.
    fn runs(&self) -> bool {
        let calls_c = self.filter == 32026 && self.values[6] >= 4;
        !(cfg!(miri) && calls_c)
    }

    pub(super) fn plain(&self) -> Vec<u8> {
        let mask = u64::MAX >> (64 - self.bits.len());
        let number = |i| (self.kind.value(i) & mask) << self.bits.start;
        let bytes = |i: u64| match self.big_endian {
            true => number(i).to_be_bytes()[8 - self.width..].to_vec(),
            false => number(i).to_le_bytes()[..self.width].to_vec(),
        };
        (0..self.count).flat_map(bytes).collect()
    }

    pub(super) fn stored(&self) -> Vec<u8> {
        let digits = self.stored.as_bytes().chunks(2);
        let text = digits.map(|pair| std::str::from_utf8(pair).unwrap());
        text.map(|pair| u8::from_str_radix(pair, 16).unwrap())
            .collect()
    }
}

pub(super) fn chunks() -> impl Iterator<Item = &'static Real> {
    CHUNKS.iter().filter(|chunk| chunk.runs())
}

const CHUNKS: &[Real] = &[
    Real {
        filter: 4,
        values: &[169, 8, 8, 100],
        kind: Numbers::Curve,
        width: 1,
        big_endian: false,
        bits: 0..8,
        count: 100,
        stored: "64000000401d2498955570002922a49264c000aaaaaa22234446f01dc6b9cbdbc0caaaa0000442109950\
            1553210d3298ccaaa02b18e842104655540694a52d8c6f2aaa41ae739cf03f31ca0212222227c72a4848\
            48484af530c493ec63a0000000",
    },
    Real {
        filter: 4,
        values: &[177, 16, 16, 300],
        kind: Numbers::Curve,
        width: 2,
        big_endian: true,
        bits: 0..16,
        count: 300,
        stored: "5802000030000f552492220e040102f5555557338000091111a221bc000eaaaae35ce66de00000110842\
            3f01ffc0735141b3556596597618602d0ffc0ff74d34d36e38f60ebcf3cf3e0207f1fc6d5cc085122446\
            2aa4489122529611f1f8fcc993a8504b22954a9510c9b162c447c7c7ec1bb372e5c2f1f060c04dfe4c99\
            207c7c78c7c1d1a340b9bb366c0f8f8700b2638f3cf3d3a7403c7c78fb9bd7cf38be7eeb153534d4f200\
            01cf60409c7d08db2c40ad39614a9a95348c199c290cb88914c238a5fe862ec54a952a69ba68e593272b\
            8b4154022a3e92518a69a54a97b289bdd44bf6b24825d147308a72129a54a695a415f074b87a09c3b3ce\
            6fbc6e06129a534a6c06a999ee88c4cafcb21696579a6414d295294aa4ea7e3412ae461aa21927d29d05\
            094a534a52d83738caf3244af6c0566116a44f414d294a7c78a1bdf40bb6266097c140000000",
    },
    Real {
        filter: 4,
        values: &[141, 10, 16, 1280],
        kind: Numbers::Sparse,
        width: 2,
        big_endian: false,
        bits: 0..16,
        count: 1500,
        stored: "b80b00000022003ff008803ff00880ffc0220ffc02103e010be011000ffc022007fe01100ffc02207fe0\
            110ffc0211f010011001ff804401ff804407fe01107fe01081f0085f0088007fe011003ff008807fe011\
            03ff00887fe0108f810008800ffc02200ffc02203ff00401",
    },
    Real {
        filter: 4,
        values: &[141, 8, 8, 300],
        kind: Numbers::Steps,
        width: 1,
        big_endian: false,
        bits: 0..8,
        count: 300,
        stored: "2c0100000052aaaffa5555ff4aaabfe95557fd2aaaffb5555aaaa6aaab5554d5556aaa9aaaad55535555\
            aaaa6492492aaaac9249255555924924aaaab24924955556492492aaab155564924922aaac9249245555\
            9249248aaab249249155564924922aaaffffffc5555ffffff8aaabffffff15557fffffe2aaaffffffc24\
            92494924928492492924925092492524924a124924a49249424924949249284924936db6db0924926db6\
            db6124fdb68000",
    },
    Real {
        filter: 4,
        values: &[141, 16, 32, 90],
        kind: Numbers::Noise,
        width: 4,
        big_endian: false,
        bits: 0..32,
        count: 90,
        stored: "68010000e0176ee67df56cc45bd34ac239b128a03ef1e0d3c2b19c8f7e6d5c4b3a29180af7bc9af8d6b4\
            12704e2c09e7c5a381df3d736f2ae6925e19d5914d08c4804bf7b37fe75ed44dc53cb42da31a920b82f8\
            71e9ec1b09f8e7d6c5f4a39280000000000038078f1eae35c554e46bfb8b1aa231c1571b0dfff0e2d4c6\
            b7a99b8d7e70625445e6e523419fde1c3a78b6f513518fcdec3d4d10d8a0682ff7bf874b12daa2662df7\
            b73029221a938c85fe77706961dad3cc60889257fd5c77e23a9b0a000000014c5944c594aaa909944c59\
            44e55550b31651316b554dadaddad8d63636dbb76b46c6f1b1932898bfeaa00020",
    },
    Real {
        filter: 4,
        values: &[169, 32, 32, 200],
        kind: Numbers::Steps,
        width: 4,
        big_endian: false,
        bits: 0..32,
        count: 200,
        stored: "200300000008f81ffe3fe00000ff1fff00000784400001fffe10000800040002",
    },
    Real {
        filter: 4,
        values: &[149, 4, 64, 100],
        kind: Numbers::Noise,
        width: 8,
        big_endian: true,
        bits: 0..64,
        count: 100,
        stored: "2003000000804020100a989265a6b71932d21332913542caa44d50b2aa2e9b56c5174dab63b5adb636ed\
            1b6d8dbb46d32d35b8c9969adc64ce50b2a9135e01e3c7abf1ae2aa73c6bfb8b1e25686c2b8d86fff87e\
            2d4c6b7f53371afddc18951172f74e99ffbc3874fe2dbd44d78c7e6f61c4acc96471a0bfdeffc3a5896d\
            ea2662df7b730292265ea7caffe7770697c3b5a798f14f8dcbf89588ea6e3015f9dbf7f470ad3d34c44b\
            df00bb7733fdf56cc45f7a695847e6c4a280fbc7834f0f58ce47bfe6d5c4b3bc523015ef7935f1aded04\
            9c139d604f3e2fa381df3d736f2ae69e4bc33ab3c53423123825fbd9bff3af6a26fc53cb42df46352417\
            e0be1c7a7b06c27e3f3eb62fa5e39281b0bbe9cfad8f6d28e4a0",
    },
    Real {
        filter: 4,
        values: &[169, 8, 18, 130],
        kind: Numbers::Curve,
        width: 4,
        big_endian: false,
        bits: 0..18,
        count: 130,
        stored: "08020000100001d249825555c000a422a49264c0008aaaaa8888d1106f0003b8d7399b78065555000022\
            10843f01f9a8a0d9aab2c3fe03b2cbb0c301683ff03a69a69b71c7a7fec1d79e79e7c0207f16ae604289\
            1223147e3552244891294b047c79932750a096452471fa952a219362c58447c760dd9b972e178e8e3f83\
            06026ff264c860009fde1000000000",
    },
    Real {
        filter: 4,
        values: &[169, 32, 64, 3000],
        kind: Numbers::Even,
        width: 8,
        big_endian: false,
        bits: 0..64,
        count: 3000,
        stored: "c05d00000070804000201000080400020100008040002010000804000201",
    },
    Real {
        filter: 32026,
        values: &[1, 0, 4, 800, 5, 1, 0],
        kind: Numbers::Curve,
        width: 4,
        big_endian: false,
        bits: 0..32,
        count: 200,
        stored: "9ea862326672616d6500d200000061cf00000000000001a8a412005003d30000000000000320d3000000\
            00000000fcd200000004d200000320d200000320d10000d10001c2d80600000000000100000000000000\
            00000093cd0007de0000dc0000050105042003000020030000fc00000000000000000100000000000000\
            00000024000000c800000000000001030507090c1014181c21272d3339404850586069737d87919ca8b4\
            c0ccd9e7f50816253545556576889aacbed1e5f912263b51677d93aac2daf20f28425c7690abc7e30420\
            3d5b7997b5d4f41939597a9cbee0072a4e7296badf0a30567ca3cbf32048719bc5ef1e4975a1cdf92b59\
            87b5e3174777a7d70d3f71a3d50d4175a9dd174d83b9ef2b639bd3104983bdf73671ade92a66a3e12462\
            a0df2464a4e42a6caef0377abe074b8fd41f65abf13d85cd1a62abf5448ed82874c0115daaf84b99e73b\
            8b0000000000000000000000000501070808000000080000002800000000000000000100000000000000\
            0000000000000000000000940193cd0006de0000dc0000ce00000023d800000000000000000000000000\
            00000000",
    },
    Real {
        filter: 32026,
        values: &[1, 0, 2, 400, 9, 2, 1],
        kind: Numbers::Curve,
        width: 2,
        big_endian: true,
        bits: 0..16,
        count: 200,
        stored: "9ea862326672616d6500d200000061cf00000000000001a3a412009103d30000000000000190d3000000\
            00000000f7d200000002d200000190d200000190d10000d10001c2d80600000000000201000000000000\
            00000093cd0007de0000dc0000050135029001000090010000f700000000000000000201000000000000\
            00000024000000cf0000001f000100b4f0b9f8e0830fce07e743703e87209cf7ffffffbf774680dc9f81\
            f95040010524a8b87e7514a87f1d0dea57a03e8d53a85fe104ea60d50056edcf9241a6f2b02a03aed89f\
            75022ec9b7f61c27218099aa3213f024d5120e3f734a9d07185997e240385bb51cdf001e335baaaa6d33\
            0efe3fbc932955b534711e40c06326a95500e0c363ccccb6a554ab6a95b66433730c0ffebfff83c73166\
            0000fc830f0fc73967cc4c26dbb6a5a556aa545555a9526b2d000000fc0ff0073e78f070381cc739c698\
            33676666329b4db605010708080000000800000028000000000000000001000000000000000000000000\
            000000000000940193cd0006de0000dc0000ce00000023d80000000000000000000000000000000000",
    },
    Real {
        filter: 32026,
        values: &[1, 0, 8, 1280, 5, 1, 5],
        kind: Numbers::Steps,
        width: 8,
        big_endian: false,
        bits: 0..64,
        count: 160,
        stored: "9ea862326672616d6500d200000061cf0000000000000108a412005503d30000000000000500d3000000\
            000000005cd200000008d200000500d200000500d10000d10001c2d80600000000000105000000000000\
            00000093cd0007de0000dc00000501850800050000000500005c00000000000000000105000000000000\
            000000240000001800000028b52ffd20a07d00002800000306090410004a519e927dda00000000000000\
            000000000000000000000000000000000000000000050107080800000008000000280000000000000000\
            01000000000000000000000000000000000000940193cd0006de0000dc0000ce00000023d80000000000\
            000000000000000000000000",
    },
    Real {
        filter: 32026,
        values: &[1, 0, 4, 600, 5, 3, 4],
        kind: Numbers::Curve,
        width: 4,
        big_endian: false,
        bits: 0..32,
        count: 150,
        stored: "9ea862326672616d6500d200000061cf00000000000001e0a412005403d30000000000000258d3000000\
            0000000134d200000004d200000258d200000258d10000d10001c2d80600000000000304000000000000\
            00000093cd0007de0000dc000005017d0458020000580200003401000000000000000304000000000000\
            000000240000000c010000785e4dd1d12b43611cc6f1df34b285344d5a48a36851322ddb706b49723571\
            210a2d2992943f6f71e542326a2d71238a28e5428af6fdf53ec5a94fcfa9f33bcffb9ef798fd5d11b4a0\
            4dd98556f4238a0ee59c66e218549ea21d7dca19c49052cf377ad18969751eab33897924f0a3ce2cba71\
            a89c440f7e3597531efceb7bd5fd00f634e3ebbf238f8a85fd8d699d51cdf97a193ca1887d8ce059e97d\
            bb48abcb730b4378536e62581dfe7c43ef4f601bb378c43876708b827a7ded070bfbf373abe9def7fca2\
            2e9ff9c0aaba6e2cecd3bff71a47b8c714caf8c48a8573bbb2708e0d3d5fd63b27a863493d7716fec905\
            d67169618fde778e12be946758d3acffbb4554b1a09e26fdb135c8050107080800000008000000280000\
            00000000000001000000000000000000000000000000000000940193cd0006de0000dc0000ce00000023\
            d80000000000000000000000000000000000",
    },
    Real {
        filter: 32026,
        values: &[1, 0, 4, 2000, 5, 0, 1],
        kind: Numbers::Even,
        width: 4,
        big_endian: false,
        bits: 0..32,
        count: 500,
        stored: "9ea862326672616d6500d200000061cf00000000000000f1a412005103d300000000000007d0d3000000\
            0000000045d200000004d2000007d0d2000007d0d10000d10001c2d80600000000000001000000000000\
            00000093cd0007de0000dc000005013504d0070000d00700004500000000000000000001000000000000\
            000000240000001d000000cf0700000007000000070000000c00ffffffffffffffb35000070000000501\
            0708080000000800000028000000000000000001000000000000000000000000000000000000940193cd\
            0006de0000dc0000ce00000023d80000000000000000000000000000000000",
    },
    Real {
        filter: 32026,
        values: &[1, 0, 4, 1200, 5, 1, 2],
        kind: Numbers::Sparse,
        width: 4,
        big_endian: false,
        bits: 0..32,
        count: 300,
        stored: "9ea862326672616d6500d200000061cf0000000000000100a412005203d300000000000004b0d3000000\
            0000000054d200000004d2000004b0d2000004b0d10000d10001c2d80600000000000102000000000000\
            00000093cd0007de0000dc000005013504b0040000b00400005400000000000000000102000000000000\
            000000240000002c0000001f0001001e2f0b0001001d2f090001001d2f070001001d2f050001001d2f03\
            000100ffffff9f5000000000000501070808000000080000002800000000000000000100000000000000\
            0000000000000000000000940193cd0006de0000dc0000ce00000023d800000000000000000000000000\
            00000000",
    },
    Real {
        filter: 32026,
        values: &[1, 0, 2, 60, 0, 1, 1],
        kind: Numbers::Noise,
        width: 2,
        big_endian: false,
        bits: 0..16,
        count: 30,
        stored: "9ea862326672616d6500d200000061cf0000000000000108a412000103d3000000000000003cd3000000\
            000000005cd200000002d20000003cd20000003cd10000d10001c2d80600000000000101000000000000\
            00000093cd0007de0000dc0000050107023c0000003c0000005c00000000000000000101000000000000\
            0000000000bbf177e333d5efc6abb866aa229cde8d9a7f56711163cd5489464538012abc1b780d34fff0\
            f0ace267d423c6dfb79ba9579b128dce7e8a704662050107080800000008000000280000000000000000\
            01000000000000000000000000000000000000940193cd0006de0000dc0000ce00000023d80000000000\
            000000000000000000000000",
    },
    Real {
        filter: 32026,
        values: &[1, 0, 2, 210, 5, 1, 1, 2, 7, 15],
        kind: Numbers::Curve,
        width: 2,
        big_endian: false,
        bits: 0..16,
        count: 105,
        stored: "9ea862326672616d6500d2000000a5cf0000000000000185a412005103d300000000000000d2d3000000\
            0000000095d200000002d2000000d2d2000000d2d10000d10001c2d80600000000000101000000000000\
            00000093cd0011de0001a462326e64d20000006bdc0001c60000003597000292d30000000000000007d3\
            000000000000000f92d200000007d20000000f92d200000007d20000000f00db000000037c5632050125\
            02d2000000d2000000950000000000000000010100000000000000000024000000690000000000000103\
            0507090c1014181c21272d3339404850586069737d87919ca8b4c0ccd9e7f50816253545556576889aac\
            bed1e5f912263b51677d93aac2daf20f28425c7690abc7e304203d5b7997b5d4f41939597a9cbee0072a\
            4e7296badf0a30567ca3cbf32048719b0000000005010708080000000800000028000000000000000001\
            000000000000000000000000000000000000940193cd0006de0000dc0000ce00000023d8000000000000\
            0000000000000000000000",
    },
    Real {
        filter: 32026,
        values: &[1, 0, 4, 2160, 5, 2, 5, 3, 3, 20, 9],
        kind: Numbers::Steps,
        width: 4,
        big_endian: false,
        bits: 0..32,
        count: 540,
        stored: "9ea862326672616d6500d2000000b8cf000000000000016ba412005503d30000000000000870d3000000\
            0000000068d200000004d200000870d200000870d10000d10001c2d80600000000000205000000000000\
            00000093cd0011de0001a462326e64d20000006bdc0001c60000004897000393d30000000000000003d3\
            0000000000000014d3000000000000000993d200000003d200000014d20000000993d200000003d20000\
            0014d20000000900db000000037c56340501950470080000700800006800000000000000000205000000\
            000000000000240000004000000028b52ffd607007b50100480000000000ffff002715a0c0db0cd0021a\
            bb0daba3b2fce1f809bb414cc2fa698c2cff74c2b26b6ea15f74dc31bbe9b62e072b4801050107080800\
            00000800000028000000000000000001000000000000000000000000000000000000940193cd0006de00\
            00dc0000ce00000023d80000000000000000000000000000000000",
    },
    Real {
        filter: 5,
        values: &[8, 0, 60, 1, 4, 1, 11, 9],
        kind: Numbers::Curve,
        width: 4,
        big_endian: true,
        bits: 9..20,
        count: 60,
        stored: "00000000001006014038090180400a0180380841382d0660e4200480a0160300690e61f4438911382a05\
            a0c0198364738f50100581283508a15432876110268560be1a23947c81204c0ec288670fa24c550c20",
    },
    Real {
        filter: 5,
        values: &[8, 0, 60, 1, 2, 0, 13, 2],
        kind: Numbers::Noise,
        width: 2,
        big_endian: false,
        bits: 2..15,
        count: 60,
        stored: "00046ec6ef533377e2ad4cdc226ef7e6a2ac311a669a2708aa01dde35e3e690f0156519cc477df4cded5\
            da25ece845091a8045bdbbca4d75e2cadf3440903c139c2ac5c4d19fa8b623f80df7c17a99b13cad5c86\
            9d12af87b3af5908a4b409196480",
    },
    Real {
        filter: 6,
        values: &[2, 0, 100, 0, 4, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        kind: Numbers::Curve,
        width: 4,
        big_endian: false,
        bits: 0..32,
        count: 100,
        stored: "080000000801000000000000000000000000000000ffffff00020406080b0f13171b20262c32383f474f\
            575f68727c86909ba7b3bfcbd8e6f407152434445464758799abbdd0e4f811253a50667c92a9c1d9f10e\
            27415b758faac6e2031f3c5a7896b4d3f3183858799bbddf06294d7195b9de092f557ba2ca00",
    },
    Real {
        filter: 6,
        values: &[2, 0, 30, 0, 8, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        kind: Numbers::Noise,
        width: 8,
        big_endian: true,
        bits: 0..64,
        count: 30,
        stored: "130000000889460000000000000000000000000000fffff2acc8ce7768eaa700cc1c88ab1eea5599e8ea\
            b0e4449566e1c8861c880000278de1e378daa66f1bbc5c55daa6753847e377a3fcd17156cc624d533823\
            44d384545403c6ef40",
    },
    Real {
        filter: 6,
        values: &[2, 0, 400, 0, 2, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        kind: Numbers::Sparse,
        width: 2,
        big_endian: false,
        bits: 0..16,
        count: 400,
        stored: "040000000801000000000000000000000000000000ffffffffffffffffffffffffffffffffffffffffff\
            ffffffffafffffffffffffffffffffffffffffffffffffffffffffffff8fffffffffffffffffffffffff\
            ffffffffffffffffffffffff6fffffffffffffffffffffffffffffffffffffffffffffffff4fffffffff\
            ffffffffffffffffffffffffffffffffffffffff2fffffffffffffffffffffffffffffffffffffffffff\
            ffffff0fffffffffffffffffffffffffffffffffffffffffffffffffbfffffffffffffffffffffffffff\
            ffffffffffffffffffffff00",
    },
];
