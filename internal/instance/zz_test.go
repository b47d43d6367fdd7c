package instance
import ("testing";"fmt";"os";"time";"github.com/shardonnay/shardonnay/internal/model")
func TestZZ(t *testing.T){
 for _,s:=range [][2]int{{10,500},{100,6000},{750,50000}} {
  t0:=time.Now()
  p,err:=Generate(Defaults(s[0],s[1],1)); if err!=nil {t.Fatal(err)}
  fmt.Println(s,len(p.Copies),len(p.Groups),len(p.Indices),time.Since(t0), model.Evaluate(p,p.Current()), model.Check(p,p.Current()))
  f,_:=os.Create(fmt.Sprintf("/tmp/sv/n%d.json",s[0])); p.Write(f); f.Close()
 }
}
