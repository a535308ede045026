# cmake -DFOLDER=.. -DOUT=.. -P embed.cmake writes the files of the pages as C++ string literals, so
# that a program needs no other file.

function(append_literal name)
  file(APPEND ${OUT}.new "extern const std::string_view ${name};\nconst std::string_view ${name} =")
  foreach(path ${ARGN})
    file(READ ${FOLDER}/${path} text)
    if(text MATCHES "\\)omni_page\"")
      message(FATAL_ERROR "${path} contains the end of the literal that it is put into")
    endif()
    file(APPEND ${OUT}.new "\n// ${path}\nR\"omni_page(${text})omni_page\"")
  endforeach()
  file(APPEND ${OUT}.new ";\n\n")
endfunction()

set(scripts format decode lane idle model colours draw draw_marks timeline details charts panels curves main)
list(TRANSFORM scripts APPEND .js)

file(WRITE ${OUT}.new "#include \"perf/report/page.hpp\"\n\nnamespace omni::perf {\n\n")
append_literal(kPageTemplate report.html)
append_literal(kPageStyle report.css)
append_literal(kPageScript ${scripts})
append_literal(kComparisonTemplate comparison.html)
append_literal(kComparisonScript format.js colours.js charts.js comparison.js)
append_literal(kEnsembleTemplate ensemble.html)
append_literal(kEnsembleScript format.js colours.js charts.js ensemble.js)
file(APPEND ${OUT}.new "}  // namespace omni::perf\n")
file(RENAME ${OUT}.new ${OUT})
